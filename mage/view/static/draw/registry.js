// Drawings by world. A new one is one file with one function, and one line here.
//
// A drawing is a function of a scene that returns an element, or null where the facts are not what it knows; then the
// facts are shown as they are. A scene says what there is to draw at one moment of an episode:
//   world       {name, params}: the spec in parts
//   names       who sits in each seat
//   agentSeat   the seat of the agent
//   facts       what the seat that moves knows, as data; null at the end
//   text        the same in words
//   mover       the seat that moves, or null
//   move        {seat, action, id, reward} that is made at this moment, or null
//   moves       all moves of the episode up to this moment, this one included
//   known       by seat its newest facts in this episode, or null
//   everything  all there is to know when the episode is over, hidden cards included; null while it is being played
//   result      `everything` where the moment is the end, else null
//   seenBy      null where all may be seen, else the only seat whose knowledge may be drawn
//   word        (seat, id) -> the world's word for a move
//   pick        (id) -> plays that move, where a person plays and may click on the drawing; else null
//   offered     where there is `pick`, the moves that it takes: [id, word] each
import { drawHouse } from "./alfworld.js";
import { drawFacts } from "./fallback.js";
import { drawKuhn } from "./kuhn_poker.js";
import { drawMineSweeper } from "./minesweeper.js";
import { drawRounds } from "./rounds.js";
import { drawSokoban } from "./sokoban.js";
import { drawTicTacToe } from "./tic_tac_toe.js";
import { drawWebShop } from "./webshop.js";

const DRAWINGS = {
  alfworld: drawHouse,
  kuhn_poker: drawKuhn,
  matrix: drawRounds,
  minesweeper: drawMineSweeper,
  pd: drawRounds,
  pennies: drawRounds,
  rps: drawRounds,
  sokoban: drawSokoban,
  tic_tac_toe: drawTicTacToe,
  webshop: drawWebShop,
};

// The picture of a scene.
export function draw(scene) {
  return (hasDrawing(scene.world.name) ? DRAWINGS[scene.world.name](scene) : null) ?? drawFacts(scene);
}

// Whether there is a drawing for a world; others are shown by their text.
export function hasDrawing(world) {
  return Object.hasOwn(DRAWINGS, world);
}
