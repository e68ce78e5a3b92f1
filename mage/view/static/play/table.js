// The table: what one sees, what one may do, and how it stands.
import { draw, hasDrawing } from "../draw/registry.js";
import { h } from "../dom.js";
import { count, parseSpec, shortName, signed, verdict } from "../format.js";
import { facts, who } from "../parts.js";
import { toHash } from "../route.js";
import { filmstrip } from "../trial/transcript.js";
import { asTrial, sceneNow } from "./scene.js";

// `does` has what a person can do: {move(action), note(text), leave(), cancel(), again()}.
export function table(state, names, does) {
  const front = h("section", { class: "card" }, FRONTS[state.phase](state, names, does));
  return h(
    "div",
    { class: "table", dataset: { phase: state.phase } },
    front,
    h(
      "div",
      {},
      standing(state, names),
      log(state, names),
      h(
        "details",
        { class: "card" },
        h("summary", {}, "The rules, as an agent is told them"),
        h("p", { class: "told-text" }, state.rules),
      ),
    ),
  );
}

const FRONTS = { loading, thinking, move, note, over, failed };

function heading(state, rest) {
  return h("h2", {}, `Episode ${state.episode + 1} of ${state.episodes}`, rest ? `: ${rest}` : "");
}

function loading(state, names, does) {
  return [
    waiting(heading(state, "players are loading")),
    h("p", { class: "quiet" }, "A model may take a while to load, and a solver to solve the world."),
    h("p", {}, h("button", { type: "button", onclick: does.cancel }, "Cancel")),
  ];
}

// A heading with a sign that something is going on.
function waiting(title) {
  title.append(" ", h("span", { class: "spinner", role: "status", "aria-label": "please wait" }));
  return title;
}

function thinking(state, names, does) {
  return [
    waiting(heading(state, state.seat === null ? "they play" : isAlone(state) ? "one moment" : "your opponent thinks")),
    picture(state, names),
    leaving(does),
  ];
}

function move(state, names, does) {
  const seen = state.observation;
  const pick = (id) => {
    const at = seen.ids.indexOf(id);
    if (at >= 0) does.move(seen.actions[at]);
  };
  const buttons = seen.actions.map((action, index) => {
    const key = index < 9 ? h("kbd", { "aria-hidden": "true" }, index + 1) : null;
    return h("button", { type: "button", dataset: { action }, onclick: () => does.move(action) }, key, action);
  });
  const isDrawn = hasDrawing(parseSpec(state.world).name);
  const listed = h("div", { class: "moves", role: "group", "aria-label": "your moves" }, buttons);
  return [
    heading(state, "your move"),
    picture(state, names, pick),
    isDrawn ? h("pre", { class: "seen" }, seen.text) : null,
    buttons.length ? listed : written(does),
    leaving(does),
  ];
}

// Where any text is an action.
function written(does) {
  const box = h("input", { type: "text", "aria-label": "your move", placeholder: "what you do", autofocus: true });
  const play = (event) => {
    event.preventDefault();
    if (box.value.trim()) does.move(box.value.trim());
  };
  return h("form", { class: "controls", onsubmit: play }, box, h("button", { class: "main", type: "submit" }, "Play"));
}

function isAlone(state) {
  return state.names.length === 1;
}

function note(state, names, does) {
  const box = h("textarea", {
    "aria-label": "a note to yourself",
    placeholder: isAlone(state) ? "What did you find out?" : "What did you notice? Your opponent never sees it.",
  });
  const next = h(
    "button",
    { class: "main", type: "button", onclick: () => does.note(box.value) },
    "On to the next episode",
  );
  return [
    h("h2", {}, `Episode ${state.results.length} is over`),
    h("pre", { class: "seen" }, state.outcome ?? ""),
    h("h3", {}, "A note to yourself, if you like"),
    box,
    h("p", {}, next),
    leaving(does),
  ];
}

function over(state, names, does) {
  const rivals = state.names.map((name, seat) => (seat === state.seat ? null : rival(seat, name, state.about[seat])));
  const yours =
    state.seat === null || !state.results.length
      ? "It is over"
      : `It is over: you scored ${state.results.map((result) => signed(result.returns[state.seat])).join(", ")}`;
  return [
    h("h2", {}, yours),
    facts([
      ["you played against", state.seat === null || isAlone(state) ? null : rivals],
      ["level", state.level || null],
    ]),
    filmstrip(finished(asTrial(state, names)), null),
    wrote(state),
    saved(state),
    h("p", {}, h("button", { class: "main", type: "button", onclick: does.again }, "Play again")),
  ];
}

// An opponent with its settings, and in words.
function rival(seat, name, words) {
  const settings = shortName(name) === name ? null : h("div", { class: "quiet" }, h("code", {}, name));
  return h("div", {}, who(seat, name, false), settings, words ? h("div", { class: "quiet" }, words) : null);
}

// A person may leave in the middle of an episode: it has no end to show.
function finished(trial) {
  return { ...trial, episodes: trial.episodes.filter((episode) => episode.isOver) };
}

function failed(state, names, does) {
  return [
    h("h2", {}, "The trial ended early"),
    h("p", { class: "why" }, state.error ?? ""),
    saved(state),
    h("p", {}, h("button", { class: "main", type: "button", onclick: does.again }, "Play again")),
  ];
}

function wrote(state) {
  const notes = state.wrote.filter((each) => each.seat !== state.seat);
  if (!notes.length && isAlone(state)) return null;
  if (!notes.length)
    return h(
      "p",
      { class: "quiet" },
      "Your opponent wrote nothing down. A trained agent still remembers; see the trial.",
    );
  return [
    h("h3", {}, state.seat === null ? "What they wrote" : "What it wrote about you"),
    notes.map((each) =>
      h(
        "blockquote",
        { class: "note" },
        h("span", { class: "quiet" }, `after episode ${each.episode + 1}, ${each.name}: `),
        each.text,
      ),
    ),
  ];
}

function saved(state) {
  if (!state.saved) return null;
  const { run, trials } = state.saved;
  const links = Object.entries(trials).map(([seat, number]) => {
    const whose =
      Number(seat) === state.seat
        ? "as you lived it"
        : `as ${state.names[seat]} lived it: all it read, wrote and remembered`;
    return h("li", {}, h("a", { href: toHash(["runs", run, "trials", number]) }, `Look at the trial ${whose}`));
  });
  return h("ul", { class: "plain" }, links);
}

function picture(state, names, pick = null) {
  const scene = sceneNow(state, names, pick);
  return scene ? h("div", { class: "picture" }, draw(scene)) : null;
}

function leaving(does) {
  return h(
    "p",
    {},
    h("button", { class: "quiet", type: "button", onclick: does.leave }, "Leave; finished episodes are kept"),
  );
}

function standing(state, names) {
  const heads = ["", ...names.map((name, seat) => h("span", {}, who(seat, name, false)))];
  const rows = Array.from({ length: state.episodes }, (_, episode) => {
    const result = state.results.find((each) => each.episode === episode);
    const word = result && state.seat !== null ? verdict(result, state.seat) : "";
    const cells = names.map((_, seat) => h("td", { class: "number" }, result ? signed(result.returns[seat]) : "·"));
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, `episode ${episode + 1}`),
      cells,
      h("td", { class: `verdict ${word}` }, word),
    );
  });
  const head = h(
    "thead",
    {},
    h(
      "tr",
      {},
      heads.map((each) => h("th", { scope: "col" }, each)),
      h("th", {}),
    ),
  );
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Scores"),
    h("table", { class: "list" }, head, h("tbody", {}, rows)),
  );
}

function log(state, names) {
  const turns = state.turns.filter((turn) => state.seat === null || turn.seat === state.seat || state.phase === "over");
  if (!turns.length) return null;
  const lines = turns.map((turn) =>
    h(
      "li",
      {},
      h("span", { class: "quiet" }, `${turn.episode + 1}. `),
      who(turn.seat, names[turn.seat], false),
      " ",
      h("strong", {}, turn.action ?? "gives up"),
    ),
  );
  return h(
    "details",
    { class: "card" },
    h("summary", {}, count(turns.length, "move")),
    h("ol", { class: "plain" }, lines),
  );
}
