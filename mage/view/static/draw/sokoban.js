// Sokoban: the room, and the way of the moves that are about to be made. A click on a square goes there within the turn.
import { s } from "../dom.js";
import { picture } from "./pieces.js";

const CELL = 40;
const STEPS = { up: [-1, 0], down: [1, 0], left: [0, -1], right: [0, 1] };

export function drawSokoban(scene) {
  const board = (scene.result ?? scene.facts)?.board;
  if (!Array.isArray(board) || !board.length || !board.every((row) => typeof row === "string")) return null;
  const squares = board.flatMap((row, y) => [...row].map((symbol, x) => square(symbol, x, y)));
  const at = playerOf(board);
  const way = scene.result || !at ? [] : wayOf(scene.move?.action ?? "", at);
  const clicks = at && scene.pick ? ends(scene, board, at) : [];
  const width = Math.max(...board.map((row) => row.length));
  return picture(CELL * width + 2, CELL * board.length + 2, spoken(board), squares, trail(way), clicks);
}

function square(symbol, x, y) {
  const [left, top] = [1 + x * CELL, 1 + y * CELL];
  const [middle, centre] = [left + CELL / 2, top + CELL / 2];
  const isGoal = ".*+".includes(symbol);
  const tone = symbol === "#" ? "wall" : symbol === "*" ? "won" : "";
  return s(
    "g",
    {},
    s("rect", { x: left, y: top, width: CELL, height: CELL, class: `cell ${tone}` }),
    isGoal ? s("circle", { cx: middle, cy: centre, r: CELL / 6, class: "goal" }) : null,
    "$*".includes(symbol) ? box(left + 6, top + 6, CELL - 12) : null,
    "@+".includes(symbol) ? s("circle", { cx: middle, cy: centre, r: CELL / 3 - 2, class: "piece seat-0" }) : null,
  );
}

function box(x, y, size) {
  const cross = `M${x} ${y}l${size} ${size}M${x + size} ${y}l${-size} ${size}`;
  return s("g", { class: "crate" }, s("rect", { x, y, width: size, height: size }), s("path", { d: cross }));
}

function playerOf(board) {
  const y = board.findIndex((row) => /[@+]/.test(row));
  return y < 0 ? null : [y, board[y].search(/[@+]/)];
}

// The squares that the moves of an action lead over, the first included; none in other words than the usual.
function wayOf(action, at) {
  const way = [at];
  for (const word of action.split(" ")) {
    const step = STEPS[word];
    if (!step) return [];
    const [y, x] = way.at(-1);
    way.push([y + step[0], x + step[1]]);
  }
  return way;
}

function trail(way) {
  if (way.length < 2) return null;
  const points = way.map(([y, x]) => `${1 + (x + 0.5) * CELL} ${1 + (y + 0.5) * CELL}`);
  const [y, x] = way.at(-1);
  const end = s("circle", { cx: 1 + (x + 0.5) * CELL, cy: 1 + (y + 0.5) * CELL, r: 4, class: "way-end" });
  return s("g", {}, s("path", { class: "way", d: `M${points.join("L")}` }), end);
}

// The squares where moves of the turn end; a click takes the first way there, which is a shortest one.
function ends(scene, board, at) {
  const found = new Map();
  for (const [id, action] of scene.offered) {
    const way = wayOf(action, at);
    if (!way.length || way.some(([y, x]) => board[y]?.[x] === "#")) continue;
    const place = String(way.at(-1));
    if (place !== String(at) && !found.has(place)) found.set(place, id);
  }
  return [...found].map(([place, id]) => {
    const [y, x] = place.split(",").map(Number);
    const rect = s("rect", { x: 1 + x * CELL, y: 1 + y * CELL, width: CELL, height: CELL, class: "reach" });
    return s("g", { class: "free", onclick: () => scene.pick(id) }, rect);
  });
}

function spoken(board) {
  const names = { "#": "wall", "-": "floor", ".": "goal", $: "box", "*": "box on a goal", "@": "player", "+": "player on a goal" };
  const rows = board.map((row) => [...row].map((symbol) => names[symbol] ?? symbol).join(", "));
  return `room: ${rows.join("; ")}`;
}
