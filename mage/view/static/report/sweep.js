// What came of a sweep: every run, and the means over seeds.
import { h } from "../dom.js";
import { count, duration } from "../format.js";
import { card, estimateCell } from "../parts.js";
import { table } from "./table.js";

// The value of the setting that a sweep varies, as an override; none where it varies none.
function settings(each) {
  return Object.entries(each.varied ?? {}).map(([key, value]) => `${key}=${value}`);
}

function splitsOf(report) {
  return [...new Set([...report.recipes, ...report.runs].flatMap((each) => Object.keys(each.scores)))];
}

function headsOf(report) {
  return splitsOf(report).map((name) => `${name}, last episode`);
}

function scoresOf(report, each) {
  return splitsOf(report).map((name) => estimateCell(each.scores[name]?.at(-1)));
}

// The means over seeds, and `more` below them.
export function means(report, more = null) {
  const recipes = report.recipes.map((each) => [
    h("th", { scope: "row" }, [each.recipe, ...settings(each)].join(" ")),
    count(each.seeds.length, "seed"),
    ...scoresOf(report, each),
  ]);
  return card(
    "Means over seeds",
    table(["recipe", "evaluated", ...headsOf(report)], recipes),
    h("p", { class: "quiet" }, "With half the width of the 95 % interval over seeds."),
    more,
  );
}

export function sweep(report) {
  const runs = report.runs.map((each) => [
    h("th", { scope: "row" }, each.name),
    each.state,
    `${each.step} of ${each.steps}`,
    duration(each.minutes),
    ...scoresOf(report, each),
    each.error,
  ]);
  return [means(report), card("Every run", table(["run", "state", "steps", "time", ...headsOf(report), ""], runs))];
}
