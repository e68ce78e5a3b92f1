// A pay-off matrix of all pairs, as a table whose cells are coloured by value.
import { h } from "../dom.js";
import { estimate, interval, shortNames, signed } from "../format.js";
import { scroller } from "../scroll.js";

// names: who; cells: {row, column, score} with estimates or null
export function payoffMatrix(names, cells) {
  const found = new Map(cells.map((cell) => [`${cell.row}\n${cell.column}`, cell]));
  const most = Math.max(1e-9, ...cells.filter((cell) => cell.score).map((cell) => Math.abs(cell.score.value)));
  const short = shortNames(names);
  const head = h(
    "tr",
    {},
    h("th", { scope: "col" }, "scores of ↓ against →"),
    names.map((name, index) => h("th", { scope: "col", title: name }, short[index])),
  );
  const rows = names.map((row, index) => {
    const entries = names.map((column) => square(found.get(`${row}\n${column}`), row === column, most));
    return h("tr", {}, h("th", { scope: "row", title: row }, short[index]), entries);
  });
  return scroller(h("table", { class: "matrix" }, h("thead", {}, head), h("tbody", {}, rows)));
}

function square(cell, isSelf, most) {
  if (!cell?.score) return h("td", { class: "none" }, isSelf ? "·" : "–");
  const share = Math.min(1, Math.abs(cell.score.value) / most);
  const tone = cell.score.value < 0 ? "low" : "high";
  const about = `${cell.row} against ${cell.column}: ${estimate(cell.score)}, ${interval(cell.score)}`;
  return h(
    "td",
    { class: `heat ${tone}`, vars: { "--heat": `${Math.round(share * 100)}%` }, title: about },
    signed(cell.score.value),
  );
}
