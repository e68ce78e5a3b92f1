// Who is in a league: kind, age, where they come from, rating, results, how often they are met.
import { scale } from "../chart/axis.js";
import { h, s } from "../dom.js";
import { count, estimate, shortNumber, interval, plain } from "../format.js";
import { table } from "../report/table.js";

const ORDER = ["learner", "anchor", "snapshot"];
const WIDTH = 64;
const HEIGHT = 16;

// Members in the order in which pages list them: learners, anchors, snapshots; the best of each first.
export function ordered(members) {
  const value = (member) => member.rating?.value ?? -Infinity;
  return [...members].sort(
    (a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind) || value(b) - value(a) || a.id.localeCompare(b.id),
  );
}

// The table of members; `colours` has a number for each learner.
export function memberTable(report, members, colours) {
  const ratings = report.members.flatMap((each) => (each.rating ? Object.values(each.rating) : []));
  const x = scale(Math.min(0, ...ratings), Math.max(0, ...ratings), 4, WIDTH - 4);
  const rows = ordered(members).map((member) => [
    h("th", { scope: "row" }, memberName(member, colours), member.id === report.leader ? leaderChip() : null),
    kindOf(member),
    h("td", { class: "number" }, member.kind === "anchor" ? "" : member.born),
    h("td", { class: "number", title: member.rating ? interval(member.rating) : null }, ratingOf(member, x)),
    h("td", { class: "number" }, member.results),
    member.drawn === null
      ? h("td", { class: "quiet" }, "–")
      : h("td", { class: "number", title: drawnBy(report, member) }, `${plain(member.drawn * 100, 1)} %`),
  ]);
  return table(["member", "what", "born", "rating", "results", "drawn"], rows, "list tight members");
}

// A member's name; learners have the colour of their curves, snapshots that of their learner.
export function memberName(member, colours) {
  const colour = colours.get(member.id) ?? colours.get(member.family);
  const classes = colour === undefined ? "member" : `member c${colour % 8}`;
  return h("span", { class: `${classes} ${member.kind}`, title: member.spec }, member.id);
}

// What each learner trains with now.
export function settingsTable(hyper) {
  const keys = [...new Set(Object.values(hyper).flatMap((each) => Object.keys(each)))].sort();
  if (!keys.length) return null;
  const rows = Object.entries(hyper).map(([learner, values]) => [
    h("th", { scope: "row" }, learner),
    ...keys.map((key) => h("td", { class: "number" }, Object.hasOwn(values, key) ? shortNumber(values[key]) : "–")),
  ]);
  return h(
    "details",
    {},
    h("summary", {}, `What the learners train with now (${count(keys.length, "setting")})`),
    table(["learner", ...keys], rows, "list tight"),
  );
}

function leaderChip() {
  return [" ", h("span", { class: "chip finished", title: "the learner with the best rating" }, "leads")];
}

function kindOf(member) {
  const from = member.kind === "learner" && member.parents.length ? `, copied ${member.parents.join(", then ")}` : "";
  const gone = member.retired === null ? "" : `, retired at step ${member.retired}`;
  return h("td", { class: gone ? "quiet" : null }, `${member.kind}${from}${gone}`);
}

// The rating as a point on its interval, beside its number.
function ratingOf({ rating, retired }, x) {
  if (!rating) return h("span", { class: "quiet" }, retired === null ? "has no matches" : "–");
  const ends = rating.low === null || rating.high === null ? [rating.value, rating.value] : [rating.low, rating.high];
  const size = { width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" };
  const [top, middle] = [1, HEIGHT / 2];
  const picture = s(
    "svg",
    { class: "whisker", ...size },
    s("line", { class: "zero", x1: x(0), x2: x(0), y1: top, y2: HEIGHT - top }),
    s("line", { class: "reach", x1: x(ends[0]), x2: x(ends[1]), y1: middle, y2: middle }),
    s("circle", { cx: x(rating.value), cy: middle, r: 3.5 }),
  );
  return h("span", { class: "rating" }, picture, estimate(rating));
}

function drawnBy(report, member) {
  const parts = Object.entries(report.drawn)
    .filter(([, odds]) => Object.hasOwn(odds, member.id))
    .map(([learner, odds]) => `${learner} ${plain(odds[member.id] * 100, 1)} %`);
  return `of the opponents of ${parts.join(", of ")}`;
}
