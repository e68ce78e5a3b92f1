// What came of a sweep: every run, and the means over seeds.
import { h } from "../dom.js";
import { count, plain } from "../format.js";
import { card, estimateCell } from "../parts.js";
import { table } from "./table.js";

// The value of the setting that a sweep varies, as an override; none where it varies none.
function settings(each) {
  return Object.entries(each.varied ?? {}).map(([key, value]) => `${key}=${value}`);
}

export function sweep(report) {
  const names = [...new Set([...report.recipes, ...report.runs].flatMap((each) => Object.keys(each.scores)))];
  const scores = (each) => names.map((name) => estimateCell(each.scores[name]?.at(-1)));
  const heads = names.map((name) => `${name}, last episode`);
  const recipes = report.recipes.map((each) => [
    h("th", { scope: "row" }, [each.recipe, ...settings(each)].join(" ")),
    count(each.seeds.length, "seed"),
    ...scores(each),
  ]);
  const runs = report.runs.map((each) => [
    h("th", { scope: "row" }, each.name),
    each.state,
    `${each.step} of ${each.steps}`,
    `${plain(each.minutes, 1)} min`,
    ...scores(each),
    each.error,
  ]);
  return [
    card(
      "Means over seeds",
      table(["recipe", "evaluated", ...heads], recipes),
      h("p", { class: "quiet" }, "With half the width of the 95 % interval over seeds."),
    ),
    card("Every run", table(["run", "state", "steps", "time", ...heads, ""], runs)),
  ];
}
