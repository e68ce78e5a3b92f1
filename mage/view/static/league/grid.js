// Pay-offs of all pairs: a coloured grid, a column for each learner, read by hovering or with the arrow keys.
import { h, show } from "../dom.js";
import { count, estimate, interval, signed } from "../format.js";
import { scroller } from "../scroll.js";
import { memberName, ordered } from "./members.js";

const HINT = "Hover over a cell, or Tab to the grid and use the arrow keys, for its interval.";
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// A grid whose `draw(report, colours)` may be called again at any time; the keyboard stays where it was.
export function payoffGrid() {
  const readout = h("p", { class: "readout", "aria-live": "polite" }, HINT);
  const frame = h("div");
  const element = h("div", { class: "payoffs" }, readout, scroller(frame));
  let cells = [];
  let at = [0, 0];

  function draw(report, colours) {
    const members = ordered(report.members.filter((each) => each.retired === null));
    const isInside = frame.contains(document.activeElement);
    const found = new Map(report.payoffs.map((each) => [`${each.row}\n${each.column}`, each]));
    const most = Math.max(1e-9, ...report.payoffs.map((each) => Math.abs(each.score.value)));
    const learners = report.members.filter((each) => each.kind === "learner");
    cells = members.map((member) =>
      learners.map((learner) => square(learner, member, found.get(`${learner.id}\n${member.id}`), most)),
    );
    at = [Math.min(at[0], cells.length - 1), Math.min(at[1], learners.length - 1)];
    cells[at[0]][at[1]].setAttribute("tabindex", "0");
    show(frame, grid(members, learners, cells, colours));
    if (isInside) focus();
  }

  function focus() {
    cells[at[0]][at[1]].focus();
  }

  function place(target) {
    const cell = target.closest?.("td");
    const row = cells.findIndex((each) => each.includes(cell));
    return row < 0 ? null : [row, cells[row].indexOf(cell)];
  }

  function step(event) {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    const [row, column] = [at[0] + move[0], at[1] + move[1]];
    if (!cells[row]?.[column]) return;
    settle([row, column]);
    focus();
  }

  function settle(next) {
    cells[at[0]][at[1]].setAttribute("tabindex", "-1");
    at = next;
    cells[at[0]][at[1]].setAttribute("tabindex", "0");
  }

  function read(event) {
    const found = place(event.target);
    if (found) show(readout, cells[found[0]][found[1]].getAttribute("aria-label"));
  }

  frame.addEventListener("keydown", step);
  frame.addEventListener("pointerover", read);
  frame.addEventListener("focusin", (event) => {
    const found = place(event.target);
    if (found) settle(found);
    read(event);
  });
  frame.addEventListener("pointerleave", () => show(readout, HINT));
  frame.addEventListener("focusout", () => show(readout, HINT));
  return { element, draw };
}

function grid(members, learners, cells, colours) {
  const heads = learners.map((learner) => h("th", { scope: "col" }, memberName(learner, colours)));
  const head = h("tr", {}, h("th", { scope: "col" }, "score of → against ↓"), heads);
  const rows = members.map((member, index) => {
    const isFirst = index > 0 && members[index - 1].kind !== member.kind;
    const name = h("th", { scope: "row" }, memberName(member, colours));
    return h("tr", { class: isFirst ? "apart" : null }, name, cells[index]);
  });
  return h("table", { class: "matrix", role: "grid" }, h("thead", {}, head), h("tbody", {}, rows));
}

function square(learner, member, payoff, most) {
  const who = `${learner.id} against ${member.id}`;
  const stop = { role: "gridcell", tabindex: -1 };
  if (learner.id === member.id) return h("td", { ...stop, class: "none", "aria-label": `${who}: not recorded` }, "·");
  if (!payoff) return h("td", { ...stop, class: "none", "aria-label": `${who}: they have not met` }, "–");
  const { value, low, high } = payoff.score;
  const isClear = low !== null && (low > 0 || high < 0);
  const rests = `${count(payoff.results, "result")}, the newest of step ${payoff.updated}`;
  return h(
    "td",
    {
      ...stop,
      class: `heat ${value < 0 ? "low" : "high"}${isClear ? " clear" : ""}`,
      vars: { "--heat": `${Math.round((Math.abs(value) / most) * 100)}%` },
      "aria-label": `${who}: ${estimate(payoff.score)}, ${interval(payoff.score)}, ${rests}`,
    },
    signed(value),
  );
}
