// Pieces that several drawings use.
import { s } from "../dom.js";

// A picture of a fixed size in its own units, with a sentence for those who do not see it.
export function picture(width, height, label, ...children) {
  return s(
    "svg",
    {
      class: "drawing",
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": label,
      vars: { "--w": `${width}px` },
    },
    children,
  );
}

// Text in a picture, its middle at x.
export function label(x, y, text, classes = "") {
  return s("text", { x, y, class: classes, "text-anchor": "middle" }, text);
}

// A playing card, its back where `rank` is null.
export function playingCard(x, y, rank, name) {
  const edge = s("rect", { x, y, width: 62, height: 88, rx: 8, class: rank === null ? "card-back" : "card-face" });
  if (rank === null) return s("g", {}, edge, s("path", { class: "hatch", d: hatch(x + 8, y + 8, 46, 72) }));
  return s("g", {}, edge, label(x + 31, y + 50, rank, "rank"), label(x + 31, y + 74, name, "small"));
}

// The name of a player in lines of at most `most` characters, broken between its words; settings are left out, for there
// is no room for them, and the page has the whole name.
export function nameLines(name, most) {
  const lines = [];
  for (const word of name.split("(")[0].match(/[^-:/_ ]+[-:/_ ]?/g) ?? []) {
    if (lines.length && (lines.at(-1) + word).length <= most) lines[lines.length - 1] += word;
    else lines.push(word);
  }
  return lines.map((line) => (line.length > most ? `${line.slice(0, most - 1)}…` : line));
}

const HANDS = {
  rock: "M10 26c-3-8 0-15 7-16 5-4 14-3 17 2 6 2 7 9 4 14-3 6-24 8-28 0z",
  paper: "M12 6h17l8 8v28H12z M29 6v8h8 M17 22h14 M17 28h14 M17 34h10",
  scissors: "M13 8l17 24 M35 8L18 32 M16 32a5 5 0 1 0 .1 0z M32 32a5 5 0 1 0 .1 0z",
};

// The sign of a move of rock-paper-scissors in a box of 48 by 48, or null for any other word.
export function hand(x, y, word) {
  return word in HANDS ? s("path", { class: "hand", transform: `translate(${x} ${y})`, d: HANDS[word] }) : null;
}

function hatch(x, y, width, height) {
  const lines = [];
  for (let at = -height; at < width; at += 9) {
    const from = Math.max(0, at);
    const to = Math.min(width, at + height);
    if (to > from) lines.push(`M${x + from} ${y + from - at}L${x + to} ${y + to - at}`);
  }
  return lines.join(" ");
}
