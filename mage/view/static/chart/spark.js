// A curve as small as a word.
import { s } from "../dom.js";
import { range, scale } from "./axis.js";

const WIDTH = 96;
const HEIGHT = 24;

// The values as a line with a dot at its end.
export function spark(values, label) {
  const picture = s("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  const known = values.filter((value) => value !== null);
  if (!known.length) return picture;
  const [low, high] = range(known, 0.1);
  const x = scale(0, Math.max(1, known.length - 1), 2, WIDTH - 4);
  const y = scale(low, high, HEIGHT - 3, 3);
  const points = known.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`);
  const zero = low < 0 && high > 0 && s("line", { class: "zero", x1: 0, x2: WIDTH, y1: y(0), y2: y(0) });
  if (zero) picture.append(zero);
  picture.append(s("polyline", { points: points.join(" ") }));
  picture.append(s("circle", { cx: x(known.length - 1), cy: y(known[known.length - 1]), r: 2 }));
  return picture;
}
