// The trials of a run as thin summaries; one page of them at a time.
import { get, isExport, runPath, watch } from "../data.js";
import { h, show } from "../dom.js";
import { count, ordinal } from "../format.js";
import { opponent, scoreBox, select } from "../parts.js";
import { replaceQuery, toHash } from "../route.js";
import { scroller } from "../scroll.js";

const LIMIT = 50;
const ARMS = { agent: "with memory", control: "memory off" };

export async function trialsPage({ root, run, query }) {
  const filter = {
    opponent: query.opponent ?? "",
    seat: query.seat ?? "",
    split: query.split ?? "",
    arm: query.arm ?? "",
  };
  let offset = Number(query.offset ?? 0);
  const list = h("div");
  const sought = h("input", {
    type: "search",
    placeholder: "part of its name",
    value: filter.opponent,
    onchange: () => apply({ opponent: sought.value.trim() }),
  });
  const filters = h("div", { class: "controls" });

  function apply(changed) {
    Object.assign(filter, changed);
    return move(0);
  }

  function move(to) {
    offset = Math.max(0, to);
    replaceQuery({ ...filter, offset: offset || null });
    return load();
  }

  function label(found) {
    return metBy(found.rows) === "level" ? "Level" : "Opponent";
  }

  async function load() {
    const found = await get(runPath(run, "trials"), { ...filter, offset, limit: LIMIT });
    const older = h(
      "button",
      { type: "button", disabled: offset === 0, onclick: () => move(offset - LIMIT) },
      "← Earlier",
    );
    const newer = h(
      "button",
      { type: "button", disabled: offset + LIMIT >= found.total, onclick: () => move(offset + LIMIT) },
      "Later →",
    );
    const place = found.total
      ? `${offset + 1} to ${Math.min(offset + LIMIT, found.total)} of ${count(found.total, "trial")}`
      : "no trial fits";
    const pager = isExport
      ? null
      : h("div", { class: "controls" }, older, h("span", { "aria-live": "polite" }, place), newer);
    if (!isExport) fillFilters(found);
    show(list, pager, scroller(table(run, found.rows)));
  }

  function fillFilters(found) {
    const kinds = [
      ["seat", "Agent's seat", found.seats],
      ["split", "Split", found.splits],
      ["arm", "Played", found.arms],
    ];
    const lists = kinds
      .filter(([, , values]) => values?.length > 1)
      .map(([name, label, values]) => {
        const shown = (value) => (name === "seat" ? ordinal(value) : (ARMS[value] ?? String(value)));
        const options = [["", "any"], ...values.map((value) => [String(value), shown(value)])];
        return select(label, options, filter[name], (value) => apply({ [name]: value }));
      });
    if (!filters.contains(document.activeElement))
      show(filters, h("label", { class: "field grow" }, h("span", { class: "label" }, label(found)), sought), lists);
  }

  await load();
  show(
    root,
    h("h1", {}, "Trials"),
    h(
      "p",
      { class: "lead" },
      "A trial is several episodes with the same opponent or level, whose name the agent is never told. An agent that " +
        "learns while it plays scores more from left to right.",
    ),
    filters,
    list,
  );
  const keys = [
    { key: "n", does: "later trials", run: () => move(offset + LIMIT) },
    { key: "p", does: "earlier trials", run: () => move(offset - LIMIT) },
  ];
  return { leave: watch({ run }, load), keys };
}

function table(run, rows) {
  const hasSteps = rows.some((row) => row.step !== null);
  const met = metBy(rows);
  const heads = [
    ...["trial", "scores by episode"],
    ...(met ? [met] : []),
    ...(hasSteps ? ["weights"] : []),
    ...["agent", "seat", "remarks"],
  ];
  return h(
    "table",
    { class: "list" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        heads.map((head) => h("th", { scope: "col" }, head)),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map((row) => entry(run, row, hasSteps, met)),
    ),
  );
}

// What trials differ in: opponents, or levels in a world of one seat; null where the seed alone decides.
function metBy(rows) {
  if (!rows.length || rows.some((row) => row.opponents.length)) return "opponent";
  return rows.some((row) => row.level) ? "level" : null;
}

function entry(run, row, hasSteps, met) {
  const link = h("a", { href: toHash(["runs", run, "trials", row.number]) }, `trial ${row.number}`);
  const scores = row.scores.map((score, index) => scoreBox(score, `episode ${index + 1}`));
  return h(
    "tr",
    {},
    h("td", { class: "number" }, link),
    h("td", { class: "scores" }, scores),
    met ? h("td", { class: "met" }, opponents(row)) : null,
    hasSteps ? h("td", { class: "number" }, weights(row.step)) : null,
    h("td", {}, row.agent ?? "–"),
    h("td", { class: "number" }, ordinal(row.seat)),
    h("td", { class: "quiet" }, row.error ? h("span", { class: "bad" }, `failed: ${row.error}`) : remarks(row)),
  );
}

function opponents(row) {
  return row.opponents.length ? row.opponents.map((name, at) => h("div", {}, opponent(name, row.about[at]))) : row.level || "";
}

function weights(step) {
  return step === null ? "–" : step === 0 ? "untrained" : `step ${step}`;
}

function remarks(row) {
  const found = [
    row.forfeits ? count(row.forfeits, "forfeit") : null,
    row.invalid_replies ? count(row.invalid_replies, "invalid reply").replace("replys", "replies") : null,
    row.overflows ? count(row.overflows, "full context") : null,
    row.arm ? `${row.split}, ${ARMS[row.arm] ?? row.arm}` : null,
    row.sibling ? "the same task again" : null,
  ];
  return found.filter(Boolean).join(", ");
}
