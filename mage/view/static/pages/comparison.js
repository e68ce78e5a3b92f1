// Curves of several runs in one chart, one line a run or one a recipe with a band over its seeds.
import { get, runPath } from "../data.js";
import { h, show } from "../dom.js";
import { lineChart } from "../chart/line.js";
import { average, boundsOf, Curves, family, metricSelect, smooth } from "../curves.js";
import { choice, select } from "../parts.js";

const WIDTHS = [
  ["1", "no smoothing"],
  ["5", "mean of 5 steps"],
  ["15", "mean of 15 steps"],
];

// A chart that shows the runs it is given by `set`, and asks for more of their steps at `grow`.
export function comparison(query, replaceQuery) {
  const chart = lineChart({ label: "Curves compared", xLabel: "step", height: 300 });
  const controls = h("div", { class: "controls" });
  const note = h("p", { class: "quiet" });
  const element = h("section", { class: "card compare", hidden: true }, controls, chart.element, note);
  const loaded = new Map();
  let runs = [];
  let key = query.key ?? "";
  let width = Number(query.smooth ?? 5);
  let over = query.over ?? "runs";
  let offered = null;

  async function set(chosen) {
    runs = chosen;
    element.hidden = !runs.length;
    await Promise.all(runs.map(load));
    paint();
  }

  async function load(run) {
    if (loaded.has(run.id)) return;
    const entry = { curves: new Curves(run.id), details: await get(runPath(run.id)) };
    await entry.curves.grow();
    loaded.set(run.id, entry);
  }

  async function grow() {
    if (!runs.length) return;
    await Promise.all(runs.filter((run) => loaded.has(run.id)).map((run) => loaded.get(run.id).curves.grow()));
    paint();
  }

  function paint() {
    const entries = runs.map((run) => ({ run, ...loaded.get(run.id) })).filter((entry) => entry.curves);
    const keys = [...new Set(entries.flatMap((entry) => entry.curves.keys))].sort(byInterest);
    if (!keys.includes(key)) key = entries[0]?.curves.scoreKeys.at(-1) ?? keys[0] ?? "";
    settings(keys);
    chart.draw({ series: over === "recipes" ? byRecipe(entries) : byRun(entries), bounds: commonBounds(entries) });
    show(
      note,
      over === "recipes"
        ? "One line for each recipe: the mean over its runs, with a 95 % interval over them (Student's t)."
        : "One line for each run.",
    );
  }

  // Left alone while the choices are the same: a list may be open.
  function settings(keys) {
    if (keys.join() === offered) return;
    offered = keys.join();
    const change = (name, apply) => (value) => {
      apply(value);
      replaceQuery({ [name]: value });
      paint();
    };
    show(
      controls,
      metricSelect(
        keys,
        key,
        change("key", (value) => (key = value)),
      ),
      select(
        "Smoothing",
        WIDTHS,
        String(width),
        change("smooth", (value) => (width = Number(value))),
      ),
      choice(
        "One line for each",
        [
          ["runs", "run"],
          ["recipes", "recipe"],
        ],
        over,
        change("over", (value) => (over = value)),
      ),
    );
  }

  function byRun(entries) {
    return entries.flatMap((entry, index) => {
      const points = entry.curves.points(key);
      const line = { name: entry.run.name, colour: index, points: smooth(points, width) };
      return width > 1 ? [{ name: "", colour: index, points, thin: true }, line] : [line];
    });
  }

  function byRecipe(entries) {
    const groups = Map.groupBy(entries, (entry) => family(entry.run));
    return [...groups].map(([name, members], index) => {
      const mean = average(members.map((entry) => smooth(entry.curves.points(key), width)));
      return { name: `${name}, ${members.length} ${members.length === 1 ? "run" : "runs"}`, colour: index, ...mean };
    });
  }

  // Exact lines are drawn where they hold for every run that is shown, but for rounding.
  function commonBounds(entries) {
    const found = entries.map((entry) => boundsOf(key, entry.details));
    const texts = new Set(found.map((bounds) => bounds.map((bound) => `${bound.name} ${bound.y.toFixed(9)}`).join()));
    return texts.size === 1 ? found[0] : [];
  }

  return { element, set, grow };
}

function byInterest(a, b) {
  const order = ["score/", "eval/", "entropy/", "groups/", "play/", "learner/"];
  const rank = (key) => (order.findIndex((prefix) => key.startsWith(prefix)) + order.length + 1) % (order.length + 1);
  return rank(a) - rank(b) || a.localeCompare(b);
}
