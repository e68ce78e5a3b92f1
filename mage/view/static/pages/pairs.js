// Before and after: the same task, with the same seed, played by the weights of two steps.
import { get, runPath } from "../data.js";
import { h, renew, show } from "../dom.js";
import { ordinal, shortName, worldTitle } from "../format.js";
import { choice, scoreBox, select } from "../parts.js";
import { replaceQuery, toHash } from "../route.js";
import { COLOURS, legendOf, tokenHover } from "../trial/tokens.js";
import { filmstrip } from "../trial/transcript.js";
import { trialView } from "../trial/view.js";

export async function pairsPage({ root, run, query }) {
  const pairs = await get(runPath(run, "pairs"));
  const title = [
    h("h1", {}, "Before and after"),
    h(
      "p",
      { class: "lead" },
      "The same task and seed, played by the same agent at two points of its training. ",
      "Step through both at once with → and ←.",
    ),
  ];
  if (!pairs.length) return nothing(root, title);
  const state = chosen(pairs, query);
  const controls = h("div", { class: "controls" });
  const sides = h("div", { class: "sides" });
  let views = [];

  function change(changed) {
    Object.assign(state, changed);
    const steps = pairs[state.task].steps;
    if (!steps.includes(state.before)) state.before = steps[0];
    if (!steps.includes(state.after)) state.after = steps.at(-1);
    replaceQuery({
      task: state.task,
      before: state.before,
      after: state.after,
      seen: state.seen,
      colour: state.colour,
    });
    return load();
  }

  async function load() {
    const pair = pairs[state.task];
    const numbers = [state.before, state.after].map((step) => pair.trials[pair.steps.indexOf(step)]);
    const trials = await Promise.all(numbers.map((number) => get(runPath(run, "trials", number))));
    views = trials.map((trial, side) =>
      trialView(trial, { at: state.at, seen: state.seen, colour: state.colour, layout: "rows" }, (at) =>
        follow(side, at),
      ),
    );
    show(
      sides,
      views.map((view, side) =>
        h(
          "section",
          { class: "side" },
          head(run, trials[side], numbers[side], [state.before, state.after][side]),
          filmstrip(trials[side], state.seen === "agent" ? trials[side].task.seat : null),
          view.element,
        ),
      ),
    );
    paint(pair);
  }

  // The other side shows the same moment where it has one: equal tasks differ only in what the agent does.
  function follow(side, at) {
    state.at = at;
    replaceQuery({ at });
    views[1 - side].goTo(at);
  }

  function paint(pair) {
    const steps = pair.steps.map((step) => [String(step), `step ${step}`]);
    const scale = Math.max(...views.map((view) => view.scale));
    const colours = COLOURS.filter(([name]) => name !== "advantage" || scale > 0);
    renew(
      controls,
      select(
        "Task",
        pairs.map((each, index) => [String(index), taskName(each, index)]),
        String(state.task),
        (value) => change({ task: Number(value) }),
      ),
      select("Before", steps, String(state.before), (value) => change({ before: Number(value) })),
      select("After", steps, String(state.after), (value) => change({ after: Number(value) })),
      choice(
        "Show",
        [
          ["all", "all seats"],
          ["agent", "as the agent saw it"],
        ],
        state.seen,
        (seen) => change({ seen }),
      ),
      choice("Colour tokens by", colours, state.colour, (colour) => change({ colour })),
      legendOf(state.colour, scale),
    );
  }

  await load();
  show(root, title, controls, sides);
  tokenHover(root);
  const both = (move) => () => views[1][move.name](...move.with);
  const keys = [
    ["ArrowRight", "→", "next moment on both sides", { name: "step", with: [1] }],
    ["ArrowLeft", "←", "previous moment on both sides", { name: "step", with: [-1] }],
    ["]", "]", "next episode", { name: "leap", with: [1] }],
    ["[", "[", "previous episode", { name: "leap", with: [-1] }],
    ["Home", "Home", "first moment", { name: "first", with: [] }],
    ["End", "End", "last moment", { name: "last", with: [] }],
  ];
  return { keys: keys.map(([key, shown, does, move]) => ({ key, shown, does, run: both(move) })) };
}

function chosen(pairs, query) {
  const task = pairs[Number(query.task)] ? Number(query.task) : 0;
  const steps = pairs[task].steps;
  const known = (value, usual) => (steps.includes(Number(value)) && value !== undefined ? Number(value) : usual);
  return {
    task,
    before: known(query.before, steps[0]),
    after: known(query.after, steps.at(-1)),
    seen: query.seen === "agent" ? "agent" : "all",
    colour: COLOURS.some(([name]) => name === query.colour) ? query.colour : "logprob",
    at: query.at ?? "1.1",
  };
}

function taskName(pair, index) {
  const { world, opponents, seat, level } = pair.task;
  const about = opponents.length ? `, in the ${ordinal(seat)} seat, against ${opponents.map(shortName).join(", ")}` : "";
  return `${index + 1}: ${worldTitle(world)}${about}${level ? `, level ${level}` : ""}`;
}

function head(run, trial, number, step) {
  const scores = trial.scores.map((score, index) => scoreBox(score, `episode ${index + 1}`));
  const when = step === 0 ? "Before training" : `After step ${step}`;
  return h(
    "header",
    { class: "side-head" },
    h("h2", {}, when),
    h("span", { class: "scores" }, h("span", { class: "quiet" }, "score by episode "), scores),
    h("a", { href: toHash(["runs", run, "trials", number]) }, `trial ${number}`),
  );
}

function nothing(root, title) {
  const why =
    "No task was played at two steps of this run. A training run plays a few tasks before it begins and again at its " +
    "end: come back then, or train a little.";
  show(root, title, h("div", { class: "card" }, h("p", {}, why)));
  return {};
}
