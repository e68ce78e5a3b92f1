// Repeated matrix games (rps, pd, pennies, matrix): one column a round, one row a seat, coloured by who gained.
import { s } from "../dom.js";
import { signed } from "../format.js";
import { hand, label, nameLines, picture } from "./pieces.js";

const LEFT = 122;
const USUAL = { rps: 3, pd: 5, pennies: 3, matrix: 3 };
const CELL = { width: 86, height: 74 };

export function drawRounds(scene) {
  const finished = roundsOf(scene);
  if (!finished) return null;
  const total = Math.max(numRounds(scene), finished.length + (scene.result ? 0 : 1));
  const columns = [];
  for (let round = 0; round < total; round += 1) columns.push(column(scene, finished, round));
  const rows = [0, 1].map((seat) => {
    const lines = nameLines(scene.names[seat], 13);
    const top = 40 + CELL.height * (seat + 0.5) - 8 * (lines.length - 1);
    return s(
      "text",
      { class: `seat-${seat}` },
      lines.map((line, index) => s("tspan", { x: 0, y: top + 16 * index }, line)),
    );
  });
  return picture(LEFT + total * CELL.width, 34 + 2 * CELL.height, spoken(scene, finished), rows, columns);
}

function numRounds(scene) {
  return Number(scene.world.params.rounds ?? USUAL[scene.world.name]) || 1;
}

// Finished rounds as [move of seat 0, move of seat 1], by the facts of the mover or of the end.
function roundsOf(scene) {
  const facts = scene.result ?? scene.facts;
  if (!Array.isArray(facts?.rounds)) return null;
  const isFlipped = !scene.result && scene.mover === 1;
  return facts.rounds.map(([own, other]) => (isFlipped ? [other, own] : [own, other]));
}

function column(scene, finished, round) {
  const x = LEFT + round * CELL.width;
  const isNow = !scene.result && round === finished.length;
  const head = label(x + CELL.width / 2, 20, `round ${round + 1}`, isNow ? "now" : "quiet");
  const cells = [0, 1].map((seat) => cell(scene, finished, round, seat, x, 30 + seat * CELL.height));
  return s("g", {}, head, cells);
}

function cell(scene, finished, round, seat, x, y) {
  const move = scene.moves.filter((each) => each.seat === seat)[round];
  const isOver = round < finished.length;
  const word = isOver ? scene.word(seat, finished[round][seat]) : (move?.action ?? null);
  const isHidden = !isOver && word !== null && scene.seenBy !== null && scene.seenBy !== seat;
  const gain = isOver ? gainOf(scene, finished[round], seat, move) : 0;
  const tone = !isOver ? (word && !isHidden ? "chosen" : "") : gain > 0 ? "good" : gain < 0 ? "bad" : "even";
  const box = s("rect", {
    x: x + 4,
    y: y + 2,
    width: CELL.width - 8,
    height: CELL.height - 6,
    rx: 8,
    class: `box ${tone}`,
  });
  const middle = x + CELL.width / 2;
  const shown = isHidden ? "?" : (word ?? "");
  const sign = hand(middle - 24, y + 2, shown);
  const earned = isOver && move ? signed(gain * numRounds(scene)) : "";
  return s(
    "g",
    {},
    box,
    sign,
    label(middle, y + (sign ? 60 : 34), shown, sign ? "small" : ""),
    label(middle, y + (sign ? 14 : 56), sign ? "" : earned, "small quiet"),
  );
}

// What a seat gained in a round; during play it is not known, except in rock-paper-scissors.
function gainOf(scene, moves, seat, move) {
  if (move?.reward !== undefined) return move.reward;
  if (scene.world.name !== "rps") return 0;
  return [0, 1, -1][(moves[seat] - moves[1 - seat] + 3) % 3] / numRounds(scene);
}

function spoken(scene, finished) {
  const rounds = finished.map(
    (moves, round) =>
      `round ${round + 1}: ${moves.map((move, seat) => `${scene.names[seat]} ${scene.word(seat, move)}`).join(", ")}`,
  );
  return rounds.join("; ") || "no round is finished";
}
