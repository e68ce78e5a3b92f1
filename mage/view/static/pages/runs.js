// All runs: what they are, how they stand, and the curves of those that are ticked.
import { inWords } from "../alarms.js";
import { get, isExport, watch } from "../data.js";
import { h, show } from "../dom.js";
import { ago, count, worldTitle, signed } from "../format.js";
import { spark } from "../chart/spark.js";
import { alarmChip, statusChip } from "../parts.js";
import { replaceQuery, toHash } from "../route.js";
import { scroller } from "../scroll.js";
import { comparison } from "./comparison.js";

const STATES = ["running", "finished", "stopped", "crashed", "alarmed", "broken"];

export async function runsPage({ root, query }) {
  let runs = await get("/api/runs");
  const ticked = new Set((query.compare ?? "").split(" ").filter((id) => runs.some((run) => run.id === id)));
  const compared = comparison(query, replaceQuery);
  const body = h("tbody");
  const made = new Map();
  const found = h("p", { class: "quiet", "aria-live": "polite" });
  const words = h("input", {
    type: "search",
    placeholder: "name, recipe, world or kind",
    oninput: fill,
    value: query.find ?? "",
  });
  const state = h(
    "select",
    { onchange: fill },
    ["any status", ...STATES].map((each) => h("option", {}, each)),
  );

  const heads = ["", "run", "status", "steps", "score in the last episode", "trials", "updated"];
  const table = h(
    "table",
    { class: "list" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        heads.map((head) => h("th", { scope: "col" }, head || h("span", { class: "unseen" }, "compare"))),
      ),
    ),
    body,
  );
  const framed = scroller(table);
  const place = h("div", {}, empty());

  function fill() {
    const sought = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = runs.filter((run) => {
      const text = [run.name, run.recipe, run.world, run.kind, run.status].join(" ").toLowerCase();
      return (
        sought.every((word) => text.includes(word)) && (state.value === "any status" || run.status === state.value)
      );
    });
    const wanted = nested(rows).map(current);
    const isSame =
      wanted.length === body.children.length && wanted.every((each, index) => each === body.children[index]);
    if (!isSame) show(body, wanted);
    if (place.firstChild !== framed && runs.length) show(place, framed);
    show(found, `${rows.length} of ${count(runs.length, "run")}`);
  }

  // A row is made anew only when its run changed, and takes the keyboard over from the old one.
  function current(entry) {
    const old = made.get(entry.run.id);
    const text = JSON.stringify([entry, Math.floor(Date.now() / 60000)]);
    if (old?.text === text) return old.element;
    const element = row(entry);
    const focus = old && [...old.element.querySelectorAll("a, input")].indexOf(document.activeElement);
    old?.element.replaceWith(element);
    if (focus >= 0) element.querySelectorAll("a, input")[focus]?.focus();
    made.set(entry.run.id, { text, element });
    return element;
  }

  function row({ run, depth, name }) {
    const tick = h("input", {
      type: "checkbox",
      "aria-label": `compare ${run.name}`,
      checked: ticked.has(run.id),
      disabled: !run.spark?.length,
    });
    tick.addEventListener("change", () => choose(run.id, tick.checked));
    const done = run.steps ? h("progress", { max: run.steps, value: run.step ?? 0, "aria-label": "steps done" }) : null;
    const why = run.why ? h("div", { class: "why" }, inWords(run.why)) : null;
    return h(
      "tr",
      { dataset: { run: run.id } },
      h("td", {}, tick),
      h(
        "td",
        { class: `wide depth-${Math.min(depth, 3)}` },
        h("a", { href: toHash(["runs", run.id]) }, name),
        h("div", { class: "quiet" }, about(run)),
      ),
      h("td", {}, statusChip(run.status, run.why), run.status === "alarmed" ? null : [" ", alarmChip(run.alarms)], why),
      h("td", {}, run.steps ? [h("span", { class: "number" }, `${run.step ?? 0} of ${run.steps}`), " ", done] : "–"),
      h("td", {}, run.spark?.length ? scored(run) : "–"),
      h("td", { class: "number" }, run.trials ? h("a", { href: toHash(["runs", run.id, "trials"]) }, run.trials) : "0"),
      h("td", { class: "quiet" }, ago(run.updated)),
    );
  }

  function choose(id, isTicked) {
    if (isTicked) ticked.add(id);
    else ticked.delete(id);
    replaceQuery({ compare: [...ticked].join(" ") });
    compared.set(runs.filter((run) => ticked.has(run.id)));
  }

  async function refresh() {
    runs = await get("/api/runs");
    fill();
    compared.grow();
  }

  const filters = h(
    "div",
    { class: "controls" },
    h("label", { class: "field grow" }, h("span", { class: "label" }, "Filter"), words),
    state,
    found,
  );
  const intro = isExport
    ? "The runs in this copy."
    : "Each row is a directory that mage wrote. Open one, or tick several to compare their curves.";
  fill();
  await compared.set(runs.filter((run) => ticked.has(run.id)));
  show(root, h("h1", {}, "Runs"), h("p", { class: "lead" }, intro), compared.element, filters, place);
  return { leave: watch({}, refresh), keys: [{ key: "/", does: "filter the runs", run: () => words.focus() }] };
}

// What belongs to another run stands below it, by the rest of its name.
function nested(runs) {
  const known = new Set(runs.map((run) => run.id));
  const below = Map.groupBy(runs, (run) => (known.has(run.parent) ? run.parent : null));
  const walk = (parent, depth) =>
    (below.get(parent?.id ?? null) ?? []).flatMap((run) => {
      const name = parent && run.name.startsWith(`${parent.name}/`) ? run.name.slice(parent.name.length + 1) : run.name;
      return [{ run, depth, name }, ...walk(run, depth + 1)];
    });
  return walk(null, 0);
}

// The small curve, and where it stands now.
function scored(run) {
  const last = run.spark.findLast((value) => value !== null);
  return h(
    "span",
    { class: "scored" },
    spark(run.spark, `last-episode score of ${run.name} over its steps`),
    last === undefined ? null : h("span", { class: "number" }, signed(last)),
  );
}

function about(run) {
  const parts = [
    run.kind === "crossplay" ? "cross-play" : run.kind,
    run.recipe && run.recipe !== run.name ? run.recipe : null,
    run.world ? worldTitle(run.world) : null,
  ];
  return parts.filter(Boolean).join(" · ");
}

function empty() {
  return h(
    "div",
    { class: "card" },
    h("p", {}, "There is no run here yet. In another terminal:"),
    h("pre", {}, "mage trials demo\nmage train rps"),
    h("p", {}, "The list fills by itself."),
  );
}
