// Any world: boards as grids, other facts by name, and the text of the world.
import { h } from "../dom.js";

export function drawFacts(scene) {
  const facts = inTrialWords(scene.result ?? scene.facts ?? {});
  const grids = [];
  const rows = [];
  for (const [name, value] of Object.entries(facts)) {
    if (isGrid(value)) grids.push(h("figure", { class: "grid" }, h("figcaption", {}, name), grid(value)));
    else if (typeof value === "string" && value.includes("\n"))
      grids.push(h("figure", {}, h("figcaption", {}, name), h("pre", {}, value)));
    else
      rows.push(
        h(
          "tr",
          {},
          h("th", { scope: "row" }, name),
          h("td", {}, Array.isArray(value) ? value.join(" ") : String(value)),
        ),
      );
  }
  const said = !scene.result && scene.text ? h("pre", {}, scene.text) : null;
  return h(
    "div",
    { class: "drawing plain-facts" },
    said,
    grids,
    rows.length ? h("table", {}, h("tbody", {}, rows)) : null,
  );
}

// What is hidden in the words of the trial, where it has words of its own.
function inTrialWords({ revealed, ...facts }) {
  return revealed !== undefined && "hidden" in facts
    ? { ...facts, hidden: `${revealed} (level ${facts.hidden})` }
    : facts;
}

function isGrid(value) {
  return (
    Array.isArray(value) &&
    value.length > 1 &&
    value.every((row) => Array.isArray(row) && row.length === value[0].length)
  );
}

function grid(rows) {
  return h(
    "table",
    { class: "board" },
    h(
      "tbody",
      {},
      rows.map((row) =>
        h(
          "tr",
          {},
          row.map((cell) => h("td", {}, cell === null ? "" : String(cell))),
        ),
      ),
    ),
  );
}
