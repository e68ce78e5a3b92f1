// Reports about a world: pay-offs of all pairs, and how far an agent can be exploited.
import { h } from "../dom.js";
import { payoffMatrix } from "../chart/matrix.js";
import { count, estimate, worldTitle, interval, plain } from "../format.js";
import { card, estimateCell, facts, opponent } from "../parts.js";
import { table } from "./table.js";

const RATINGS = [
  ["elo", "Elo", "Bradley-Terry on the Elo scale; the mean of all is 0"],
  ["nash_share", "share in equilibrium", "its part of the agents' equilibrium of highest entropy"],
  ["nash_score", "score against it", "what it scores against that equilibrium"],
  ["alpha_rank", "alpha-rank", "its share of time in alpha-rank"],
];

// Who scores most against all others, best first, and `more` below it; `about` has words for those that are known.
export function standings(found, about, more = null) {
  const best = [...found.standings].sort((a, b) => (b.score?.value ?? -Infinity) - (a.score?.value ?? -Infinity));
  const rows = best.map((each) => [
    h("th", { scope: "row", class: "met" }, opponent(each.agent, about[each.agent])),
    estimateCell(each.score),
    ...RATINGS.map(([key]) =>
      h(
        "td",
        { class: "number", title: each[key] ? interval(each[key]) : found.missing[key] },
        estimate(each[key], (value) => plain(value, key === "elo" ? 0 : 2)),
      ),
    ),
    h("td", { class: "number" }, each.forfeits),
  ]);
  const heads = ["agent, best first", "mean score", ...RATINGS.map(([, name, title]) => h("span", { title }, name)), "forfeits"];
  return card(
    "Standings",
    table(heads, rows),
    Object.entries(found.missing ?? {}).map(([key, why]) => h("p", { class: "quiet" }, `${key}: ${why}`)),
    more,
  );
}

export function crossPlay(found, about) {
  return [
    card(
      "Pay-offs of all pairs",
      h(
        "p",
        { class: "lead" },
        `${worldTitle(found.world)}, ${count(found.episodes, "episode")} a trial, `,
        `${count(found.num_trials, "trial")} of each pair in each order. `,
        "Blue: the row wins, orange: it loses. Hover for intervals.",
      ),
      payoffMatrix(found.agents, found.cells),
    ),
    standings(found, about),
  ];
}

// What best replies gain, and `more` below it.
export function exploitability(found, more = null) {
  const reading = (name, each) => [
    h("th", { scope: "row" }, name),
    h(
      "td",
      { class: "number", title: interval(each.nash_conv) },
      estimate(each.nash_conv, (value) => plain(value, 3)),
    ),
    ...each.gains.map((gain) =>
      h(
        "td",
        { class: "number" },
        estimate(gain, (value) => plain(value, 3)),
      ),
    ),
  ];
  const rows = [reading("in the first episode", found.first)];
  if (found.last) rows.push(reading(`in the last, after meeting ${found.last.opponent}`, found.last.reading));
  const heads = ["", "NashConv", ...found.first.gains.map((_, seat) => `best reply in seat ${seat} gains`)];
  return card(
    "How far it can be exploited",
    h(
      "p",
      { class: "lead" },
      `${found.agent} in ${worldTitle(found.world)}: what best replies to its play would gain, summed over the seats. `,
      "0 is an equilibrium.",
    ),
    table(heads, rows),
    facts([
      ["even play", plain(found.uniform, 3)],
      [`CFR+, ${found.cfr_iterations} iterations`, found.cfr === null ? null : small(found.cfr)],
    ]),
    more,
  );
}

// What is not 0 is not shown as 0: an equilibrium that was approached.
function small(value) {
  return value > 0 && value < 0.0005 ? "<0.001" : plain(value, 3);
}

export function nashConv(found) {
  const policy = Object.entries(found.policy).map(([state, odds]) => [
    h("td", {}, h("code", {}, state)),
    Object.entries(odds)
      .map(([action, share]) => `${action} ${plain(share * 100, 0)} %`)
      .join(", "),
  ]);
  return [
    exploitability(found),
    h(
      "details",
      { class: "card" },
      h("summary", {}, `Its policy at ${count(policy.length, "information state")}`),
      table(["information state", "probabilities"], policy),
    ),
  ];
}
