// Kuhn poker: the cards of all seats, bets and passes, and the chips in the middle.
import { s } from "../dom.js";
import { count } from "../format.js";
import { label, playingCard, picture } from "./pieces.js";

const NAMES = ["three", "four", "five", "six", "seven", "eight", "nine", "ten", "jack", "queen", "king"];
const RANKS = ["3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K"];
const WIDTH = 150;
const BET = 1;

export function drawKuhn(scene) {
  const facts = scene.result ?? scene.facts;
  if (!Array.isArray(facts?.betting)) return null;
  const betting = [...facts.betting];
  if (!scene.result && scene.move) betting.push(scene.move.id);
  const seats = scene.names.map((_, seat) => player(scene, seat, facts.betting, betting));
  const pot = scene.names.length + betting.filter((act) => act === BET).length;
  const bottom = 152 + 26 * Math.ceil(betting.length / scene.names.length);
  const middle = (scene.names.length * WIDTH) / 2;
  const chips = [
    s("circle", { cx: middle - 60, cy: bottom + 3, r: 8, class: "chip" }),
    s("text", { x: middle - 46, y: bottom + 8, class: "small" }, `${count(pot, "chip")} in the pot`),
  ];
  return picture(scene.names.length * WIDTH, bottom + 18, spoken(scene, betting), seats, chips);
}

function player(scene, seat, before, betting) {
  const x = seat * WIDTH;
  const held = cardOf(scene, seat);
  const acts = betting.map((act, index) => [act, index]).filter(([, index]) => index % scene.names.length === seat);
  const said = acts.map(([act, index], row) =>
    bubble(x, 152 + row * 26, scene.word(seat, act), act, index >= before.length),
  );
  return s(
    "g",
    {},
    label(x + WIDTH / 2, 18, shorten(scene.names[seat]), `seat-${seat}`),
    playingCard(x + WIDTH / 2 - 31, 34, rank(scene, held), held === null ? "" : cardName(scene, held)),
    said,
  );
}

// What the viewer may see: everything, or what one seat knew then.
function cardOf(scene, seat) {
  if (scene.seenBy === seat) return scene.known[seat]?.card ?? null;
  const isShown = scene.result && staying(scene.result.betting, scene.names.length).includes(seat);
  if (scene.seenBy !== null && !(isShown && staying(scene.result.betting, scene.names.length).length > 1)) return null;
  return scene.everything?.cards?.[seat] ?? scene.known[seat]?.card ?? null;
}

function staying(betting, numSeats) {
  if (!betting.includes(BET)) return [...Array(numSeats).keys()];
  return [...new Set(betting.flatMap((act, index) => (act === BET ? [index % numSeats] : [])))];
}

function rank(scene, card) {
  return card === null ? null : RANKS.slice(-scene.names.length - 1)[card];
}

function cardName(scene, card) {
  return NAMES.slice(-scene.names.length - 1)[card];
}

function bubble(x, y, word, act, isNew) {
  const classes = `box ${isNew ? "chosen" : ""} ${act === BET ? "strong" : ""}`;
  return s(
    "g",
    {},
    s("rect", { x: x + 35, y: y - 16, width: 80, height: 23, rx: 11, class: classes }),
    label(x + WIDTH / 2, y, word, "small"),
  );
}

function shorten(name) {
  const short = name.split("(")[0];
  return short.length > 17 ? `${short.slice(0, 16)}…` : short;
}

function spoken(scene, betting) {
  const cards = scene.names.map((name, seat) => {
    const card = cardOf(scene, seat);
    return `${name} holds ${card === null ? "a hidden card" : cardName(scene, card)}`;
  });
  const acts = betting.map(
    (act, index) => `${scene.names[index % scene.names.length]} ${scene.word(index % scene.names.length, act)}`,
  );
  return [...cards, ...acts].join(", ");
}
