// Curves with bands, and exact bounds as dashed lines; hover, or the arrow keys, read the values.
import { h, s, show } from "../dom.js";
import { shortNumber } from "../format.js";
import { nearest, range, scale, ticks } from "./axis.js";

const MARGIN = { left: 52, right: 14, top: 12, bottom: 34 };
const WIDE = 430;
const LINE = { letters: 15, width: 128, height: 14 };

// A chart whose `draw({series, bounds})` may be called again at any time.
//
// series: [{name, colour, points: [[x, y], ...], band: [[x, low, high], ...] or null, dashed, marks, thin}]
// bounds: [{name, y}], exact values that are lines across the whole width, named on the right, or in the legend where
// there is no room; `least`: the smallest span of y
export function lineChart({ label, xLabel, height = 260, least = 0 }) {
  const plot = h("div", { class: "plot", tabindex: 0, role: "img", "aria-label": label });
  const legend = h("div", { class: "legend" });
  const readout = h("div", { class: "readout", "aria-live": "polite" });
  const element = h("figure", { class: "chart" }, h("figcaption", {}, label), legend, plot, readout);
  const hidden = new Set();
  let data = { series: [], bounds: [] };
  let at = null;
  let geometry = null;
  let drawn = "";

  // The legend is left alone where it is the same: it may have the keyboard focus.
  function draw(next) {
    data = next;
    data = { ...data, bounds: merged(data.bounds) };
    paint();
  }

  function key(each) {
    const isShown = !hidden.has(each.name);
    const toggle = (event) => {
      if (!hidden.delete(each.name)) hidden.add(each.name);
      event.currentTarget.setAttribute("aria-pressed", String(!hidden.has(each.name)));
      paint();
    };
    const classes = `key c${each.colour % 8}${each.dashed ? " dashed" : ""}`;
    return h("button", { class: classes, type: "button", "aria-pressed": isShown, onclick: toggle }, each.name);
  }

  // Where bounds have no room beside the plot, they are named here.
  function paintLegend(isWide) {
    const names = isWide ? ["exact, by calculation"] : data.bounds.map(boundName);
    const now = JSON.stringify([data.series.map((each) => [each.name, each.colour]), data.bounds.length ? names : []]);
    if (now !== drawn)
      show(
        legend,
        data.series.filter((each) => each.name).map(key),
        data.bounds.length ? names.map((name) => h("span", { class: "key bound" }, name)) : null,
      );
    drawn = now;
  }

  function paint() {
    const width = plot.clientWidth;
    if (!width) return;
    const shown = data.series.filter((each) => !hidden.has(each.name) && each.points.length);
    paintLegend(width >= WIDE);
    geometry = layOut(shown, data.bounds, { width, height, least });
    show(plot, picture(shown, data.bounds, geometry, xLabel));
    read();
  }

  function read() {
    const line = plot.querySelector(".cursor");
    if (at === null || !geometry || !geometry.places.length) {
      show(readout);
      line?.setAttribute("visibility", "hidden");
      return;
    }
    at = Math.max(0, Math.min(geometry.places.length - 1, at));
    const x = geometry.places[at];
    line.setAttribute("visibility", "visible");
    line.setAttribute("transform", `translate(${geometry.x(x)} 0)`);
    const values = data.series.filter((each) => !hidden.has(each.name)).map((each) => valueAt(each, x));
    show(readout, h("strong", {}, `${xLabel} ${shortNumber(x)}`), values);
  }

  function point(event) {
    if (!geometry?.places.length) return;
    const box = plot.getBoundingClientRect();
    at = nearest(geometry.places, geometry.back(event.clientX - box.left));
    read();
  }

  function step(event) {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    event.stopPropagation();
    const last = (geometry?.places.length ?? 0) - 1;
    at = at === null ? last : at + (event.key === "ArrowLeft" ? -1 : 1);
    read();
  }

  function leave() {
    at = null;
    read();
  }

  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerleave", leave);
  plot.addEventListener("blur", leave);
  plot.addEventListener("keydown", step);
  new ResizeObserver(paint).observe(plot);
  return { element, draw };
}

function valueAt(each, x) {
  if (!each.name || !each.points.length) return null;
  const index = nearest(
    each.points.map((place) => place[0]),
    x,
  );
  const [px, py] = each.points[index];
  if (px !== x) return null;
  const band = each.band?.find((place) => place[0] === x);
  const spread = band ? ` (${shortNumber(band[1])} to ${shortNumber(band[2])})` : "";
  return h("span", { class: `value c${each.colour % 8}` }, `${each.name} ${shortNumber(py)}${spread}`);
}

// Bounds of equal value are one line with both names.
function merged(bounds) {
  const byValue = Map.groupBy(bounds, (bound) => bound.y.toFixed(6));
  return [...byValue.values()].map((some) => ({ name: some.map((bound) => bound.name).join(" = "), y: some[0].y }));
}

function boundName(bound) {
  return `${bound.name} ${shortNumber(bound.y)}`;
}

function layOut(shown, bounds, { width, height, least }) {
  const places = [...new Set(shown.flatMap((each) => each.points.map((place) => place[0])))].sort((a, b) => a - b);
  const values = shown.flatMap((each) => [
    ...each.points.map((place) => place[1]),
    ...(each.band ?? []).flatMap((place) => [place[1], place[2]]),
  ]);
  const [low, high] = range([...values, ...bounds.map((bound) => bound.y)], least);
  const [first, last] = places.length > 1 ? [places[0], places[places.length - 1]] : range(places);
  const isNamed = width >= WIDE && bounds.length > 0;
  const right = width - (isNamed ? LINE.width : MARGIN.right);
  const x = scale(first, last, MARGIN.left, right);
  const y = scale(low, high, height - MARGIN.bottom, MARGIN.top);
  const back = scale(MARGIN.left, right, first, last);
  return { width, height, right, isNamed, places, low, high, first, last, x, y, back };
}

function picture(shown, bounds, g, xLabel) {
  const across = (y) => ({ x1: MARGIN.left, x2: g.right, y1: g.y(y), y2: g.y(y) });
  const grid = ticks(g.low, g.high, 5).map((value) => [
    s("line", { class: Math.abs(value) < 1e-12 ? "grid zero" : "grid", ...across(value) }),
    s("text", { class: "tick", x: MARGIN.left - 6, y: g.y(value) + 4, "text-anchor": "end" }, shortNumber(round(value))),
  ]);
  const wholes = ticks(g.first, g.last, Math.max(2, g.width / 110)).filter((value) => Number.isInteger(round(value)));
  const steps = wholes.map((value) => {
    return s("text", { class: "tick", x: g.x(value), y: g.height - 16, "text-anchor": "middle" }, shortNumber(round(value)));
  });
  const title = s("text", { class: "tick", x: g.right, y: g.height - 2, "text-anchor": "end" }, xLabel);
  const limits = bounds.map((bound) => s("line", { class: "bound", ...across(bound.y) }));
  const names = (g.isNamed ? labelled(bounds, g) : []).map((bound) =>
    s(
      "text",
      { class: "bound", y: bound.top },
      bound.lines.map((line, n) => s("tspan", { x: g.right + 6, dy: n ? LINE.height : 0 }, line)),
    ),
  );
  const cursor = s(
    "g",
    { class: "cursor", visibility: "hidden" },
    s("line", { y1: MARGIN.top, y2: g.height - MARGIN.bottom }),
  );
  const size = { width: g.width, height: g.height, viewBox: `0 0 ${g.width} ${g.height}`, "aria-hidden": "true" };
  return s(
    "svg",
    size,
    grid,
    steps,
    title,
    shown.map((each) => band(each, g)),
    limits,
    shown.map((each) => curve(each, g)),
    names,
    cursor,
  );
}

// The names of bounds in lines, each beside its bound; those that lie close together are pushed apart.
function labelled(bounds, g) {
  let free = g.height;
  return [...bounds]
    .sort((a, b) => a.y - b.y)
    .map((bound) => {
      const lines = wrapped(boundName(bound));
      const size = (lines.length - 1) * LINE.height;
      const top = Math.min(g.y(bound.y) + 4 - size / 2, free - size - LINE.height);
      free = top;
      return { lines, top };
    });
}

function wrapped(text) {
  return text.split(" ").reduce((lines, word) => {
    const last = lines.at(-1);
    const isFull = last === undefined || last.length + 1 + word.length > LINE.letters;
    return isFull ? [...lines.map((line) => line.trimEnd() + " "), word] : [...lines.slice(0, -1), `${last} ${word}`];
  }, []);
}

function band(each, g) {
  if (!each.band?.length) return null;
  const up = each.band.map(([x, , high]) => `${g.x(x).toFixed(1)},${g.y(high).toFixed(1)}`);
  const down = each.band.map(([x, low]) => `${g.x(x).toFixed(1)},${g.y(low).toFixed(1)}`).reverse();
  return s("polygon", { class: `band c${each.colour % 8}`, points: [...up, ...down].join(" ") });
}

function curve(each, g) {
  const classes = `curve c${each.colour % 8}${each.dashed ? " dashed" : ""}${each.thin ? " thin" : ""}`;
  const points = each.points.map(([x, y]) => `${g.x(x).toFixed(1)},${g.y(y).toFixed(1)}`);
  const dots = each.marks || each.points.length === 1 ? each.points : [];
  return [
    s("polyline", { class: classes, points: points.join(" ") }),
    dots.map(([x, y]) => s("circle", { class: `mark c${each.colour % 8}`, cx: g.x(x), cy: g.y(y), r: 3.5 })),
  ];
}

function round(value) {
  return Number(value.toPrecision(6));
}
