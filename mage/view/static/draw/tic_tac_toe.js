// Tic-tac-toe: the board, the move about to be made, and the line that won.
import { s } from "../dom.js";
import { label, picture } from "./pieces.js";

const CELL = 76;
const EDGE = 24;
const LINES = [
  [0, 1, 2],
  [3, 4, 5],
  [6, 7, 8],
  [0, 3, 6],
  [1, 4, 7],
  [2, 5, 8],
  [0, 4, 8],
  [2, 4, 6],
];

export function drawTicTacToe(scene) {
  const board = (scene.result ?? scene.facts)?.board;
  if (!Array.isArray(board) || board.length !== 3) return null;
  const marks = board.flat();
  const line = LINES.find(([a, b, c]) => marks[a] && marks[a] === marks[b] && marks[a] === marks[c]) ?? [];
  const chosen = scene.result ? null : (scene.move?.id ?? null);
  const size = EDGE + 3 * CELL + 4;
  const cells = marks.map((mark, index) => cell(scene, mark, index, index === chosen, line.includes(index)));
  const isReworded = "reworded" in scene.world.params;
  const names = isReworded
    ? []
    : [0, 1, 2].flatMap((n) => [
        label(EDGE + (n + 0.5) * CELL, 16, "abc"[n], "quiet small"),
        label(12, EDGE + (n + 0.5) * CELL + 5, String(n + 1), "quiet small"),
      ]);
  return picture(size, size, spoken(marks, chosen), names, cells);
}

function cell(scene, mark, index, isChosen, hasWon) {
  const x = EDGE + (index % 3) * CELL;
  const y = EDGE + Math.floor(index / 3) * CELL;
  const tone = hasWon ? "won" : isChosen ? "chosen" : "";
  const shape = mark ?? (isChosen ? "xo"[scene.move.seat] : null);
  const name = scene.word(scene.mover ?? 0, index);
  const free =
    shape === null && "reworded" in scene.world.params && name
      ? label(x + CELL / 2, y + CELL / 2 + 4, name, "quiet small")
      : null;
  const pick = mark === null && scene.pick ? () => scene.pick(index) : null;
  const classes = `${mark === null && isChosen ? "coming" : ""} ${pick ? "free" : ""}`;
  return s(
    "g",
    { class: classes, onclick: pick },
    s("rect", { x, y, width: CELL, height: CELL, class: `cell ${tone}` }),
    piece(shape, x, y),
    free,
  );
}

function piece(mark, x, y) {
  if (mark === "x")
    return s("path", { class: "piece seat-0", d: `M${x + 20} ${y + 20}l36 36M${x + 56} ${y + 20}l-36 36` });
  if (mark === "o") return s("circle", { class: "piece seat-1", cx: x + CELL / 2, cy: y + CELL / 2, r: 20 });
  return null;
}

function spoken(marks, chosen) {
  const rows = [0, 3, 6].map((start) =>
    marks
      .slice(start, start + 3)
      .map((mark) => mark ?? "free")
      .join(" "),
  );
  return `board: ${rows.join("; ")}${chosen === null ? "" : `; the move goes to cell ${chosen + 1}`}`;
}
