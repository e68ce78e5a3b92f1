// One trial: what the agent saw, did, wrote and remembered, moment by moment.
import { get, isExport, runPath } from "../data.js";
import { h, renew, show } from "../dom.js";
import { count, worldTitle } from "../format.js";
import { choice, facts, scoreBox, who } from "../parts.js";
import { replaceQuery, toHash } from "../route.js";
import { COLOURS, legendOf, tokenHover } from "../trial/tokens.js";
import { trialView, walkKeys } from "../trial/view.js";

export async function trialPage({ root, run, at: number, query }) {
  const trial = await get(runPath(run, "trials", number));
  if (trial.error || !trial.episodes.length) return failed(root, run, trial);
  const settings = { at: query.at ?? "1.1", ...read(query) };
  const link = h(
    "a",
    { class: "button", href: location.hash, title: "the address of this moment", onclick: copy },
    "Link to this moment",
  );
  const view = trialView(trial, { ...settings, colour: settings.colour ?? "logprob" }, moved);
  settings.colour ??= view.hasAdvantages ? "advantage" : "logprob";
  view.set({ colour: settings.colour });
  const controls = h("div", { class: "controls" });
  const look = h("div", { class: "look" }, h("button", { type: "button", onclick: unfold }, "How it is shown"), controls);
  const hasTokens = trial.streams.length > 0;

  // Where the window is narrow the choices are folded, so that the board is in sight.
  function unfold() {
    look.classList.toggle("open");
  }

  function moved(at) {
    replaceQuery({ at });
    link.href = location.hash;
  }

  function set(changed) {
    Object.assign(settings, changed);
    replaceQuery(changed);
    link.href = location.hash;
    view.set(changed);
    paint();
  }

  function paint() {
    const colours = COLOURS.filter(([name]) => name !== "advantage" || view.hasAdvantages);
    renew(
      controls,
      choice(
        "Episodes",
        [
          ["rows", "in sequence"],
          ["columns", "side by side"],
        ],
        settings.layout,
        (layout) => set({ layout }),
      ),
      choice(
        "Show",
        [
          ["all", "all seats"],
          ["agent", "as the agent saw it"],
        ],
        settings.seen,
        (seen) => set({ seen }),
      ),
      hasTokens ? choice("Colour tokens by", colours, settings.colour, (colour) => set({ colour })) : null,
      hasTokens ? legendOf(settings.colour, view.scale) : null,
      link,
      hasTokens && !view.hasAdvantages ? h("span", { class: "quiet" }, noAdvantages(trial)) : null,
    );
  }

  // The address was changed, or an earlier one was opened again.
  function follow(next) {
    set(read({ ...settings, ...next }));
    view.goTo(next.at ?? "1.1");
  }

  function copy(event) {
    if (!navigator.clipboard) return;
    event.preventDefault();
    navigator.clipboard.writeText(location.href).then(
      () => show(link, "Address copied"),
      () => show(link, "Copy the address above"),
    );
  }

  show(root, head(trial, number, run), look, view.element, reading(trial));
  paint();
  tokenHover(root);
  const toggle = (name, one, other) => () => set({ [name]: settings[name] === one ? other : one });
  const nextColour = () => {
    const names = COLOURS.map(([name]) => name).filter((name) => name !== "advantage" || view.hasAdvantages);
    set({ colour: names[(names.indexOf(settings.colour) + 1) % names.length] });
  };
  const keys = [
    ...walkKeys(view),
    { key: "a", does: "all seats, or as the agent saw it", run: toggle("seen", "all", "agent") },
    { key: "s", does: "episodes side by side, or in sequence", run: toggle("layout", "rows", "columns") },
    { key: "c", does: "colour tokens by something else", run: nextColour },
    ...(isExport
      ? []
      : [
          {
            key: "n",
            does: "next trial",
            run: () => (location.hash = toHash(["runs", run, "trials", Number(number) + 1])),
          },
          {
            key: "p",
            does: "previous trial",
            run: () => (location.hash = toHash(["runs", run, "trials", Math.max(0, Number(number) - 1)])),
          },
        ]),
  ];
  return { keys, changed: follow };
}

// Why no token of the trial has an advantage.
function noAdvantages(trial) {
  if (trial.trained === null) return "No advantages: they are on file for trials that a training run learned from.";
  const turns = trial.episodes.flatMap((episode) => episode.turns).filter((turn) => turn.credit);
  if (turns.some((turn) => turn.credit.advantage === null))
    return (
      `No advantages: this trial was played with the weights of step ${trial.step} to be looked at. An advantage ` +
      "compares a trial with others of the same task, and it has none."
    );
  return "No advantages: all trials of this task scored alike, so there was nothing to learn from them.";
}

// What an address says about how to look; anything else is as usual.
function read(query) {
  return {
    seen: query.seen === "agent" ? "agent" : "all",
    layout: query.layout === "columns" ? "columns" : "rows",
    colour: COLOURS.some(([name]) => name === query.colour) ? query.colour : null,
  };
}

function head(trial, number, run) {
  const seats = trial.names.map((name, seat) => who(seat, name, seat === trial.task.seat));
  const scores = trial.scores.map((score, index) => [
    index ? h("span", { class: "quiet" }, " → ") : null,
    scoreBox(score, `episode ${index + 1}`),
  ]);
  const deals = trial.task.replay_deal ? "the first deal every time" : null;
  return h(
    "section",
    { class: "card slim" },
    h("h1", {}, `Trial ${number}`, h("span", { class: "quiet" }, ` · ${worldTitle(trial.task.world)}`)),
    h(
      "div",
      { class: "versus" },
      seats.flatMap((seat, index) => (index ? [h("span", { class: "quiet" }, "against"), seat] : [seat])),
      h("span", { class: "scores" }, h("span", { class: "quiet" }, "score by episode "), scores),
    ),
    told(trial),
    h(
      "details",
      {},
      h("summary", {}, "About this trial: rules, memory, seed"),
      facts([
        ["opponents", trial.task.opponents.join(", ") || null],
        ["level", trial.task.level || null],
        ["episodes", `${trial.episodes.length} of ${trial.task.episodes}`],
        ["deals", deals],
        ["memory", trial.agent?.memory],
        ["replies", trial.agent?.reply],
        ["method", trial.agent?.method],
        ["weights after", trial.step === null ? null : count(trial.step, "step")],
        [
          "learned from",
          trial.trained === null
            ? null
            : trial.trained
              ? "yes"
              : "no: played to be looked at, or all its siblings did alike",
        ],
        ["seed", `${trial.task.seed}, sibling ${trial.sibling}`],
        ["rules it was told", trial.rules],
      ]),
    ),
  );
}

// What the others do, for those who look; the agent is told neither this nor their names.
function told(trial) {
  const others = trial.names.map((name, seat) => [name, seat]).filter(([, seat]) => seat !== trial.task.seat);
  const known = others.filter(([, seat]) => trial.about[seat]);
  return known.map(([name, seat]) =>
    h(
      "p",
      { class: "quiet about" },
      others.length > 1 ? [h("strong", {}, name.split(/[(:]/)[0]), ": "] : null,
      trial.about[seat],
    ),
  );
}

// All that the model read and wrote, as it stood in its context.
function reading(trial) {
  const streams = trial.streams.filter((stream) => stream.pieces);
  if (!streams.length) return null;
  const shown = streams.map((stream, index) => [
    streams.length > 1 ? h("h3", {}, `Stream ${index + 1} of ${streams.length}`) : null,
    h(
      "pre",
      { class: "stream" },
      stream.pieces.map((piece) => h("span", { class: piece.written ? "written" : "" }, piece.text)),
    ),
  ]);
  return h(
    "details",
    { class: "card" },
    h("summary", {}, "Everything the model read and wrote, as it stood in its context"),
    h("p", { class: "quiet" }, "What it wrote itself is marked."),
    shown,
  );
}

function failed(root, run, trial) {
  const text = trial.error ?? "No episode was finished.";
  show(
    root,
    h(
      "div",
      { class: "card problem", role: "alert" },
      h("h1", {}, "This trial could not be played"),
      h("p", { class: "why" }, text),
      facts([
        ["world", worldTitle(trial.task.world)],
        ["opponents", trial.task.opponents.join(", ") || null],
        ["level", trial.task.level || null],
        ["seed", trial.task.seed],
      ]),
      h("p", {}, h("a", { href: toHash(["runs", run, "trials"]) }, "All trials of this run")),
    ),
  );
  return {};
}
