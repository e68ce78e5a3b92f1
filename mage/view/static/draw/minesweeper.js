// MineSweeper: the board as it is seen, the cell about to be opened, and at the end all mines.
import { s } from "../dom.js";
import { label, picture } from "./pieces.js";

const CELL = 44;
const EDGE = 24;

export function drawMineSweeper(scene) {
  const facts = scene.result ?? scene.facts;
  const board = facts?.board;
  if (!Array.isArray(board) || !Array.isArray(board[0])) return null;
  const columns = board[0].length;
  const cells = board.flat();
  const closed = cells.flatMap((cell, index) => (cell === null ? [index] : []));
  const chosen = scene.result ? null : (closed[scene.move?.id ?? -1] ?? null);
  const mines = minesOf(scene.result?.hidden, columns);
  const names = [
    ...board[0].map((_, n) => label(EDGE + (n + 0.5) * CELL, 16, letter(n), "quiet small")),
    ...board.map((_, n) => label(12, EDGE + (n + 0.5) * CELL + 5, String(n + 1), "quiet small")),
  ];
  const drawn = cells.map((cell, index) => {
    const id = closed.indexOf(index);
    return square(index, columns, cell, {
      isChosen: index === chosen,
      isMine: mines.has(index),
      pick: cell === null && scene.pick ? () => scene.pick(id) : null,
    });
  });
  const spoken = spokenBoard(board, chosen === null ? null : name(chosen, columns), facts.turns_left);
  return picture(EDGE + columns * CELL + 4, EDGE + board.length * CELL + 4, spoken, names, drawn);
}

function square(index, columns, cell, { isChosen, isMine, pick }) {
  const x = EDGE + (index % columns) * CELL;
  const y = EDGE + Math.floor(index / columns) * CELL;
  const tone = isChosen ? "chosen" : cell === "*" ? "hit" : cell === null ? "" : "open";
  const sign = cell === "*" || isMine ? "✹" : cell === null || cell === 0 ? null : String(cell);
  return s(
    "g",
    { class: pick ? "free" : "", onclick: pick },
    s("rect", { x, y, width: CELL, height: CELL, class: `cell ${tone}` }),
    sign === null ? null : label(x + CELL / 2, y + CELL / 2 + 6, sign, "count"),
  );
}

// The mines of a level such as 6x6:c3:a1,b2,f6, as numbers of cells.
function minesOf(level, columns) {
  const listed = typeof level === "string" ? level.split(":")[2] : null;
  return new Set((listed ?? "").split(",").filter(Boolean).map((cell) => {
    return (Number(cell.slice(1)) - 1) * columns + cell.charCodeAt(0) - 97;
  }));
}

function letter(column) {
  return String.fromCharCode(97 + column);
}

function name(index, columns) {
  return `${letter(index % columns)}${Math.floor(index / columns) + 1}`;
}

function spokenBoard(board, chosen, turnsLeft) {
  const rows = board.map((row) => row.map((cell) => (cell === null ? "closed" : cell === "*" ? "mine" : cell)).join(" "));
  return `board: ${rows.join("; ")}; turns left: ${turnsLeft}${chosen === null ? "" : `; ${chosen} is opened`}`;
}
