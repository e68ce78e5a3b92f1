// A league: its members, their lineage, the pay-offs of all pairs, and its events with their reasons.
import { get, runPath, watch } from "../data.js";
import { h, show } from "../dom.js";
import { count, shortNumber, signed } from "../format.js";
import { lineChart } from "../chart/line.js";
import { Curves } from "../curves.js";
import { eventTable, KINDS } from "../league/events.js";
import { payoffGrid } from "../league/grid.js";
import { memberTable, settingsTable } from "../league/members.js";
import { familyTree } from "../league/tree.js";
import { card, choice } from "../parts.js";

// What is drawn over the steps: the metric of each learner, or one of the whole league.
const CURVES = [
  { key: "rating", label: "Rating of each learner" },
  { key: "anchors", label: "Score against the anchors, last episode: a fall is forgetting" },
  { key: "nash_conv", label: "NashConv of each learner: 0 cannot be exploited" },
  { key: "league/diversity", label: "Diversity: effective number of members" },
];

export async function leaguePage({ root, run: id }) {
  const curves = new Curves(id);
  let report = await get(runPath(id, "league"));
  await curves.grow();
  const state = { retired: false, events: "all" };
  const parts = frame((changed) => {
    Object.assign(state, changed);
    paint();
  });

  function paint() {
    const colours = new Map(learnersOf(report).map((each, index) => [each.id, index]));
    const members = report.members.filter((each) => state.retired || each.retired === null);
    show(parts.head, summary(report));
    parts.tree.draw(report, colours);
    show(parts.members, memberTable(report, members, colours));
    parts.settle(report.hyper);
    parts.grid.draw(report, colours);
    show(parts.events, eventTable(report.events, state.events));
    parts.charts.forEach((chart, index) => {
      const series = seriesOf(CURVES[index].key, curves, colours);
      chart.box.hidden = !series.length;
      chart.draw({ series, bounds: [] });
    });
    parts.box.hidden = !numRetired(report);
    show(parts.retired, `Show ${count(numRetired(report), "retired member")} too`);
  }

  async function refresh() {
    report = await get(runPath(id, "league"));
    await curves.grow();
    paint();
  }

  show(root, parts.all);
  paint();
  return { leave: watch({ run: id }, refresh) };
}

// The parts that stay while metrics change.
function frame(change) {
  const [head, members, settings, events] = [h("div"), h("div"), h("div"), h("div")];
  const [tree, grid] = [familyTree(), payoffGrid()];
  const retired = h("span");
  const tick = h("input", { type: "checkbox", onchange: (event) => change({ retired: event.target.checked }) });
  const box = h("label", { class: "field" }, tick, retired);
  const charts = CURVES.map(({ label }) => {
    const chart = lineChart({ label, xLabel: "step", height: 220 });
    return { draw: chart.draw, box: card(null, chart.element) };
  });
  let settled = "";
  // Left alone where nothing changed: it may be open.
  const settle = (hyper) => {
    if (settled !== JSON.stringify(hyper)) show(settings, settingsTable(hyper));
    settled = JSON.stringify(hyper);
  };
  const kinds = [["all", "everything"], ...Object.entries(KINDS).map(([kind, [, , name]]) => [kind, name])];
  const all = [
    head,
    card("Lineage", tree.element, h("p", { class: "quiet" }, HOW_TO_READ_THE_TREE)),
    h(
      "div",
      { class: "columns standings" },
      card("Members", members, box, settings, h("p", { class: "quiet" }, HOW_TO_READ_MEMBERS)),
      card("Pay-offs of all pairs", grid.element, h("p", { class: "quiet" }, HOW_TO_READ_THE_GRID)),
    ),
    h(
      "div",
      { class: "columns two" },
      charts.map((each) => each.box),
    ),
    card(
      "What happened, and why",
      h("div", { class: "controls" }, choice("Show", kinds, "all", (kind) => change({ events: kind }))),
      events,
    ),
  ];
  return { all, head, tree, members, settle, grid, charts, events, box, retired };
}

const HOW_TO_READ_THE_TREE =
  "One line for each learner. A dot is a snapshot, frozen to be played against, and hollow once it has left. An " +
  "arrow ends at a learner that took over the weights of another; a loop leads back to the snapshot that a collapsed " +
  "learner was restored from.";
const HOW_TO_READ_MEMBERS =
  "Learners are trained, anchors are given by the config, snapshots are learners of the past. Rating: what one " +
  "scores against another is about the difference of theirs. Results: groups of trials on the pay-off table. " +
  "Drawn: how often learners meet it now, on average; hover for each learner.";
const HOW_TO_READ_THE_GRID =
  "The learner at the top scores this in its last episode against the member on the left. Blue: it wins, orange: it " +
  "loses, bold: the 95 % interval leaves no doubt which.";

function summary(report) {
  const present = report.members.filter((each) => each.retired === null);
  const num = (kind, noun) => count(present.filter((each) => each.kind === kind).length, noun);
  const leader = report.members.find((each) => each.id === report.leader);
  const rating = leader?.rating ? ` (rating ${signed(leader.rating.value)})` : "";
  const who = `${num("learner", "learner")}, ${num("snapshot", "snapshot")} and ${num("anchor", "anchor")}`;
  return [
    h("h1", {}, `League at step ${report.step}`),
    h(
      "p",
      { class: "lead" },
      `${who} play each other. `,
      h("strong", {}, report.leader),
      ` leads${rating}. `,
      `All members together are as diverse as ${shortNumber(report.diversity)} that differ completely.`,
    ),
  ];
}

function seriesOf(key, curves, colours) {
  if (key.includes("/")) {
    const points = curves.points(key);
    return points.length ? [{ name: "", colour: 5, points }] : [];
  }
  const found = [...colours].map(([name, colour]) => ({ name, colour, points: curves.points(`${name}/${key}`) }));
  return found.filter((each) => each.points.length);
}

function learnersOf(report) {
  return report.members.filter((each) => each.kind === "learner");
}

function numRetired(report) {
  return report.members.filter((each) => each.retired !== null).length;
}
