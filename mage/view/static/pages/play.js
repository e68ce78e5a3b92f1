// Play: sit down yourself for a few episodes, or watch two agents, and look afterwards at what was remembered.
import { DataError, get, isExport, post, watch } from "../data.js";
import { h, renew, show } from "../dom.js";
import { worldTitle } from "../format.js";
import { setKeys } from "../keys.js";
import { playForm } from "../play/form.js";
import { table } from "../play/table.js";
import { toHash } from "../route.js";

export async function playPage({ root, parts, query }) {
  if (isExport) throw new DataError("this page is a copy: it cannot play. Start `mage view`.");
  return parts[1] ? playSession(root, parts[1], query.hidden === "1") : form(root);
}

async function form(root) {
  const choices = await get("/api/choices");
  const lead =
    "Play several episodes against a script, a solver, a search or an agent you trained, or a world of one seat. An " +
    "agent may learn how you play; afterwards you see what it remembered and wrote about you.";
  show(root, h("h1", {}, "Play"), h("p", { class: "lead" }, lead), playForm(choices, start));
  return {};
}

async function start(wish) {
  const { world: name, level, player, episodes, seat, isHidden } = wish;
  const state = await firstThatSits(wish.opponents, (opponent) =>
    post("/api/play", { world: name, level, opponent, player, episodes, seat }),
  );
  location.hash = toHash(["play", state.session], { hidden: isHidden ? 1 : null });
}

// A random opponent may need settings that were not given: then another one is tried.
async function firstThatSits(opponents, open) {
  let problem = new DataError("no listed opponent can play this world.");
  for (const opponent of opponents) {
    try {
      return await open(opponent);
    } catch (error) {
      if (!(error instanceof DataError)) throw error;
      problem = error;
    }
  }
  throw problem;
}

async function playSession(root, session, isHidden) {
  const path = `/api/play/${encodeURIComponent(session)}`;
  const place = h("div");
  const problem = h("p", { class: "bad", role: "alert" });
  let state = null;
  let answered = null;

  function names() {
    const isOver = state.phase === "over" || state.phase === "failed";
    return state.names.map((name, seat) =>
      seat === state.seat
        ? "you"
        : isHidden && !isOver
          ? state.names.length > 2
            ? `player ${seat + 1}`
            : "your opponent"
          : name,
    );
  }

  // A note that is being written is left alone: the same state may be told twice.
  function take(next) {
    if (state && next.version <= state.version) return;
    state = next;
    renew(place, table(state, names(), does));
    setKeys(keysOf(state, does));
  }

  // One answer to each state: what comes of it may be told before the answer to the answer is here.
  async function act(tail, body) {
    if (answered === state.version) return;
    answered = state.version;
    show(problem);
    try {
      take(await post(`${path}/${tail}`, body));
    } catch (error) {
      answered = null;
      show(problem, error.message);
    }
  }

  const does = {
    move: (action) => act("move", { action }),
    note: (text) => act("note", { text }),
    leave: () => act("leave", {}),
    cancel: async () => {
      await act("leave", {});
      does.again();
    },
    again: () => (location.hash = "#/play"),
  };
  const first = await get(path);
  show(root, h("h1", {}, worldTitle(first.world)), problem, place);
  take(first);
  return { leave: watch({ session }, async () => take(await get(path))), keys: keysOf(state, does) };
}

function keysOf(state, does) {
  const actions = state.observation?.actions ?? [];
  return actions
    .slice(0, 9)
    .map((action, index) => ({ key: String(index + 1), does: `play ${action}`, run: () => does.move(action) }));
}
