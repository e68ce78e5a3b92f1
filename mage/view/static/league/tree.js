// The family tree over time: a line for each learner, its snapshots as dots, copies as arrows, rollbacks as loops back.
import { h, s, show } from "../dom.js";
import { estimate, shortNumber } from "../format.js";
import { scale, ticks } from "../chart/axis.js";
import { deed } from "./events.js";

const MARGIN = { left: 84, right: 18, top: 26 };
const AXIS = 16;
const LANE = 46;
const HINT = "Hover over a mark, or Tab to the tree and use ← and →, to read it.";

const MOVES = { exploit: copied, rollback: rolledBack };

// A tree whose `draw(report, colours)` may be called again at any time.
export function familyTree() {
  const label = "Family tree; ← and → read its marks";
  const plot = h("div", { class: "plot", tabindex: 0, role: "img", "aria-label": label });
  const readout = h("div", { class: "readout", "aria-live": "polite" }, HINT);
  const element = h("div", { class: "chart tree" }, plot, readout);
  let data = null;
  let marks = [];
  let at = null;

  function draw(report, colours) {
    data = { report, colours };
    paint();
  }

  function paint() {
    if (!data || !plot.clientWidth) return;
    const lanes = data.report.members.filter((each) => each.kind === "learner").map((each) => each.id);
    const num = data.report.events.filter(isMove).length;
    const g = layOut(lanes, data.report.step, plot.clientWidth, num <= plot.clientWidth / 120);
    marks = [...snapshots(data, g), ...moves(data, g)].sort((a, b) => a.step - b.step);
    show(plot, picture(data, marks, g));
    read();
  }

  function read() {
    if (at !== null) at = Math.max(0, Math.min(marks.length - 1, at));
    marks.forEach((mark, index) => mark.element.classList.toggle("now", index === at));
    show(readout, marks[at]?.about ?? HINT);
  }

  function go(next) {
    at = next;
    read();
  }

  plot.addEventListener("pointerover", (event) => {
    const index = marks.findIndex((mark) => mark.element.contains(event.target));
    if (index >= 0) go(index);
  });
  plot.addEventListener("pointerleave", () => go(null));
  plot.addEventListener("blur", () => go(null));
  plot.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    event.stopPropagation();
    go(at === null ? marks.length - 1 : at + (event.key === "ArrowLeft" ? -1 : 1));
  });
  new ResizeObserver(paint).observe(plot);
  return { element, draw };
}

function layOut(lanes, step, width, hasWords) {
  const height = MARGIN.top + LANE * lanes.length + AXIS;
  const x = scale(0, Math.max(1, step), MARGIN.left, width - MARGIN.right);
  const y = (id) => MARGIN.top + LANE * lanes.indexOf(id);
  return { lanes, step, width, height, hasWords, x, y };
}

function isMove(event) {
  return Object.hasOwn(MOVES, event.league);
}

// The line of a member: a learner has its own, a snapshot is on its learner's.
function laneOf(report, id) {
  const member = report.members.find((each) => each.id === id);
  return member ? member.family : id;
}

function snapshots({ report, colours }, g) {
  const found = report.members.filter((each) => each.kind === "snapshot" && g.lanes.includes(each.family));
  return found.map((member) => {
    const place = { cx: g.x(member.born), cy: g.y(member.family) };
    const isGone = member.retired !== null;
    const dots = [
      s("circle", { class: "reach", ...place, r: 13 }),
      s("circle", { class: `dot${isGone ? " gone" : ""}`, ...place, r: 6 }),
    ];
    return {
      step: member.born,
      about: about(member),
      element: s("g", { class: `mark c${colours.get(member.family) % 8}` }, dots),
    };
  });
}

function about(member) {
  const rating = member.rating ? `, rating ${estimate(member.rating)}` : "";
  const gone = member.retired === null ? "still in the league" : `retired at step ${member.retired}`;
  return `${member.id}: snapshot of ${member.parents.join(", ")}, step ${member.born}, ${gone}${rating}`;
}

function moves({ report, colours }, g) {
  const known = report.events.filter((each) => isMove(each) && g.lanes.includes(laneOf(report, each.member)));
  return known.map((event) => {
    const from = laneOf(report, event.parent);
    const tone = event.league === "exploit" && colours.has(from) ? `c${colours.get(from) % 8}` : "back";
    return {
      step: event.step,
      about: `Step ${event.step}: ${deed(event)}. ${event.reason}`,
      element: s("g", { class: `mark ${tone}` }, MOVES[event.league](report, event, g)),
    };
  });
}

// An arrow from the line of the one that was copied down or up to the line of the one that copied it.
function copied(report, event, g) {
  const from = laneOf(report, event.parent);
  const to = laneOf(report, event.member);
  if (!g.lanes.includes(from)) return [];
  const [x, y1, y2] = [g.x(event.step), g.y(from), g.y(to)];
  const way = Math.sign(y2 - y1);
  const end = y2 - way * 4;
  const head = `M ${x - 5} ${end - way * 8} L ${x} ${end} L ${x + 5} ${end - way * 8}`;
  const path = `M ${x - 24} ${y1} C ${x} ${y1} ${x} ${y1 + way * 12} ${x} ${end}`;
  return [
    s("path", { class: "reach", d: path }),
    s("path", { class: "arrow", d: path }),
    s("path", { class: "arrow", d: head }),
    label(x + 8, y2 - way * 16 + 4, `copies ${from}`, g),
  ];
}

// A loop from the moment of trouble back to the snapshot that was healthy.
function rolledBack(report, event, g) {
  const snapshot = report.members.find((each) => each.id === event.parent);
  const [x1, x2] = [g.x(event.step), g.x(snapshot?.born ?? 0)];
  const y = g.y(laneOf(report, event.member));
  const path = `M ${x1} ${y - 4} C ${x1} ${y - 30} ${x2} ${y - 30} ${x2} ${y - 10}`;
  const head = `M ${x2 - 5} ${y - 17} L ${x2} ${y - 9} L ${x2 + 5} ${y - 17}`;
  const cross = `M ${x1 - 5} ${y - 5} L ${x1 + 5} ${y + 5} M ${x1 + 5} ${y - 5} L ${x1 - 5} ${y + 5}`;
  return [
    [path, head, cross].map((d) => s("path", { class: "arrow", d })),
    s("path", { class: "reach", d: path }),
    label(x1 + 8, y - 10, "rolled back", g),
  ];
}

// Words beside a mark, as long as marks are few; on the other side where they would not fit.
function label(x, y, text, g) {
  if (!g.hasWords) return null;
  const isLeft = x + 7 * text.length > g.width;
  return s("text", { class: "tick", x: isLeft ? x - 16 : x, y, "text-anchor": isLeft ? "end" : "start" }, text);
}

function picture({ report, colours }, marks, g) {
  const lines = g.lanes.map((id) => {
    const member = report.members.find((each) => each.id === id);
    const [x1, y] = [g.x(member.born), g.y(id)];
    return s(
      "g",
      { class: `c${colours.get(id) % 8}` },
      s("line", { class: "lane", x1, x2: g.x(g.step), y1: y, y2: y }),
      s("text", { class: "name", x: MARGIN.left - 10, y: y + 4, "text-anchor": "end" }, id),
    );
  });
  const axis = ticks(0, g.step, Math.max(2, g.width / 110)).map((value) => [
    s("line", { class: "grid", x1: g.x(value), x2: g.x(value), y1: 8, y2: g.height - AXIS - 16 }),
    s("text", { class: "tick", x: g.x(value), y: g.height - AXIS - 2, "text-anchor": "middle" }, shortNumber(value)),
  ]);
  const title = s("text", { class: "tick", x: g.width - MARGIN.right, y: g.height - 3, "text-anchor": "end" }, "step");
  const size = { width: g.width, height: g.height, viewBox: `0 0 ${g.width} ${g.height}`, "aria-hidden": "true" };
  return s("svg", size, axis, title, lines, [...marks].reverse().map((mark) => mark.element));
}
