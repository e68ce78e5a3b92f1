// Parts of several reports: scores by episode as a chart, tables and rows of estimates.
import { h } from "../dom.js";
import { lineChart } from "../chart/line.js";
import { scroller } from "../scroll.js";

// arms: [{name, scores: [estimate], dashed}]; bounds: [{name, y}]
export function scoresByEpisode(label, arms, bounds) {
  const chart = lineChart({ label, xLabel: "episode", height: 240, least: 0.2 });
  const series = arms.map((arm, colour) => ({
    name: arm.name,
    colour,
    dashed: arm.dashed,
    marks: true,
    points: arm.scores.map((each, index) => [index + 1, each.value]),
    band: arm.scores.flatMap((each, index) =>
      each.low === null || each.high === null ? [] : [[index + 1, each.low, each.high]],
    ),
  }));
  chart.draw({ series, bounds });
  return chart.element;
}

// A table from heads and rows of cells that are elements or texts.
export function table(heads, rows, classes = "list") {
  const cell = (each) => (each instanceof HTMLTableCellElement ? each : h("td", {}, each));
  const head = h(
    "thead",
    {},
    h(
      "tr",
      {},
      heads.map((each) => h("th", { scope: "col" }, each)),
    ),
  );
  return scroller(
    h(
      "table",
      { class: classes },
      head,
      h(
        "tbody",
        {},
        rows.map((row) => h("tr", {}, row.map(cell))),
      ),
    ),
  );
}

// The mean over seats of an exact value, such as `memoryless` or `myopic.high`, where every seat has it.
export function overSeats(references, name) {
  const named = (each) => name.split(".").reduce((value, key) => value?.[key], each);
  const values = references.map(([, each]) => named(each)).filter((value) => typeof value === "number");
  return values.length && values.length === references.length
    ? values.reduce((sum, value) => sum + value, 0) / values.length
    : null;
}

// A number with its bar, for tables of many opponents; the bar spans `low..high`.
export function barCell(text, value, low, high, title) {
  const place = (x) => `${Math.max(0, Math.min(100, ((x - low) / (high - low || 1)) * 100))}%`;
  const zero = Math.max(low, Math.min(high, 0));
  const bar = h("span", {
    class: `bar ${value < 0 ? "low" : "high"}`,
    vars: { "--from": place(Math.min(zero, value)), "--to": place(Math.max(zero, value)) },
  });
  return h("td", { class: "number barred", title }, text, h("span", { class: "track" }, bar));
}
