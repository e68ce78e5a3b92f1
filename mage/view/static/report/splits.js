// How an agent does on sets of opponents: with its memory and without, beside what is possible.
import { h } from "../dom.js";
import { count, estimate, worldTitle, interval, percent, plain, signed } from "../format.js";
import { card, estimateCell, opponent } from "../parts.js";
import { splitBounds } from "../curves.js";
import { barCell, overSeats, scoresByEpisode, table } from "./table.js";

const KINDS = {
  seen: "opponents it could meet in training",
  "unseen parameters": "opponents it never met, of a kind it trained with",
  "unseen families": "opponents of kinds it never met",
  harder: "opponents that are harder to read or to beat",
  reworded: "the same world with other names for everything",
  switching: "opponents that turn into another one without a word",
};

const HOW_TO_READ =
  "Scores with half the width of their 95 % interval, over members where these are not met in training, else over " +
  "trials. Memory off: the same weights and the same deals, but " +
  "nothing is remembered from one episode to the next. What lies above “best memoryless” can only come from memory; " +
  "no agent that starts without knowing the opponent can expect more than the limit. Myopic Bayes remembers everything " +
  "and plays each episode for itself: what lies above it takes exploration, an episode spent to find out. It is a range " +
  "where equally good actions teach differently. A dash: there is no exact value.";
const ADAPTATION = "how much more the score rises from the first episode to the last than with memory off";
const OPPONENTS =
  "Best reply: what the best player who knows this opponent would score. Exploitation: the share of that, over what " +
  "equilibrium play gets, which the agent took in the last episode. Bars: blue is a gain, orange a loss.";
const SOLVED = ["solved by then", "share of trials won at least once so far (pass@k)"];
const LUCK = ["by luck alone", "the same if every episode were an independent repetition of the first"];

// `trialsOf(opponent)` is the address of the trials against one, or null where they are not on file.
export function splits(report, trialsOf) {
  return [inShort(report.reports), report.reports.map((found) => split(found, trialsOf, report.about ?? {}))];
}

function boundsOf(found) {
  const [memoryless, myopic, limit] = ["memoryless", "myopic.high", "bayes_last"].map((name) =>
    overSeats(found.references, name),
  );
  return splitBounds({ memoryless, myopic, limit });
}

// One line for each set of opponents: what counts, beside its control and what is possible.
export function inShort(reports, more = null) {
  const heads = [
    "opponents",
    "score in the last episode",
    "memory off",
    "best memoryless",
    "myopic Bayes",
    "limit",
    h("span", { title: ADAPTATION }, "gained by adapting"),
    "trials",
  ];
  const rows = reports.map((found) => [
    h(
      "td",
      { class: "wide" },
      h("strong", {}, found.split),
      h("div", { class: "quiet" }, found.has_levels ? worldTitle(found.world) : (KINDS[found.kind] ?? worldTitle(found.world))),
    ),
    estimateCell(found.agent.scores.at(-1), { class: "number strong" }),
    estimateCell(found.control.scores.at(-1)),
    h("td", { class: "number" }, exact(overSeats(found.references, "memoryless"))),
    h("td", { class: "number" }, myopicRange(found.references)),
    h("td", { class: "number" }, exact(overSeats(found.references, "bayes_last"))),
    estimateCell(found.over_control),
    h("td", { class: "number" }, found.num_trials),
  ]);
  return card("In short", table(heads, rows), h("p", { class: "quiet" }, HOW_TO_READ), more);
}

function exact(value) {
  return value === null ? "–" : signed(value, 3);
}

function myopicRange(references) {
  const [low, high] = ["low", "high"].map((end) => exact(overSeats(references, `myopic.${end}`)));
  return low === high ? high : `${low} to ${high}`;
}

function split(found, trialsOf, about) {
  const last = found.agent.scores.at(-1);
  const chart = scoresByEpisode(
    `Score by episode, ${found.split}`,
    [
      { name: "with memory", scores: found.agent.scores },
      { name: "memory off", scores: found.control.scores, dashed: true },
    ],
    boundsOf(found),
  );
  return card(
    found.split,
    h("p", { class: "lead" }, sentence(found, last)),
    found.parts ? h("p", {}, parts(found.parts, found.task_value)) : null,
    h("div", { class: "columns two wide" }, chart, h("div", {}, results(found), health(found))),
    opponents(found, trialsOf, about),
  );
}

function sentence(found, last) {
  const memoryless = overSeats(found.references, "memoryless");
  const kind = KINDS[found.kind] ? ` (${KINDS[found.kind]})` : "";
  const num = found.members?.length ?? found.by_member.length;
  const score = `it scores ${estimate(last)} in the last of ${found.episodes} episodes`;
  const levels = num ? `On ${count(num, "level")}` : "On levels drawn by seed";
  const about = found.has_levels ? `${levels} ${score}` : `Against ${count(num, "opponent")}${kind} ${score}`;
  const off = estimate(found.control.scores.at(-1));
  if (memoryless === null || last.low === null) return `${about}; with memory off ${off}.`;
  const proof =
    last.low > memoryless
      ? "more than any player without memory could expect"
      : last.high < memoryless
        ? "less than the best player without memory"
        : "about what the best player without memory could expect";
  return `${about}: ${proof} (${exact(memoryless)}). With memory off it scores ${off}.`;
}

// The last score by where it comes from, and what memory and exploration are worth here.
function parts({ memoryless, memory, exploration }, worth) {
  const sum = `${plain(memoryless)} needs no memory and ${plain(memory)} is within what memory alone can add`;
  const above = exploration ? `; ${plain(exploration)} lies above that: exploration, or luck` : "";
  const most = worth?.exploration ?? null;
  const exploring = most === null ? "how much exploration is worth is not known" : `exploration ${plain(most, 3)}`;
  const value = worth ? ` On these tasks memory is worth ${plain(worth.memory, 3)} and ${exploring}.` : "";
  return `Of the last score ${sum}${above}.${value}`;
}

function results(found) {
  const { scores, rates, passes } = found.agent;
  const share = (each) => h("td", { class: "number", title: interval(each) }, each ? percent(each.value) : "–");
  const columns = [
    ["score", (k) => estimateCell(scores[k])],
    ["memory off", (k) => estimateCell(found.control.scores[k])],
    ...(rates
      ? [
          ["won", (k) => share(rates[k].win)],
          ["drawn", (k) => share(rates[k].draw)],
          ["lost", (k) => share(rates[k].loss)],
        ]
      : []),
    ...(passes
      ? [
          [SOLVED, (k) => share(passes[k].solved)],
          [LUCK, (k) => share(passes[k].independent)],
        ]
      : []),
  ];
  const heads = columns.map(([name]) => (Array.isArray(name) ? h("span", { title: name[1] }, name[0]) : name));
  const rows = scores.map((_, k) => [
    h("th", { scope: "row" }, `episode ${k + 1}`),
    ...columns.map(([, cell]) => cell(k)),
  ]);
  return table(["", ...heads], rows, "list tight");
}

function health(found) {
  const rows = [
    ["agent", "with memory"],
    ["control", "memory off"],
  ].map(([arm, name]) => {
    const metrics = found[arm];
    const problems = [
      ["invalid", "invalid replies"],
      ["truncated", "truncated replies"],
      ["forfeits", "forfeits"],
      ["overflows", "full contexts"],
    ]
      .filter(([key]) => metrics[key])
      .map(([key, label]) => `${metrics[key]} ${label}`);
    return h(
      "li",
      {},
      `${name}: ${problems.join(", ") || "no invalid or truncated reply, no forfeit, no full context"}; a trial has `,
      `${plain(metrics.tokens_sampled / found.num_trials, 0)} tokens written `,
      `and ${plain(metrics.tokens_read / found.num_trials, 0)} in context`,
    );
  });
  const more = [
    found.exploitation
      ? h(
          "li",
          {},
          `share of what could be gained over equilibrium: ${estimate(found.exploitation, (value) => plain(value))}`,
        )
      : null,
    found.regret ? h("li", {}, `distance to the limit: ${estimate(found.regret, (value) => plain(value))}`) : null,
    found.agent.recovery ? h("li", {}, recovered(found.agent.recovery)) : null,
    found.failures
      ? h("li", { class: "bad" }, `${count(found.failures, "task")} could not be played and are left out`)
      : null,
  ];
  return h("ul", { class: "quiet" }, more, rows);
}

function recovered({ before, recovered: needed }) {
  const start = `before the opponent changed it scored ${estimate(before)}`;
  return needed === null
    ? `${start}; it never came back to that`
    : `${start}; it was back there in episode ${needed} after the change`;
}

function opponents(found, trialsOf, about) {
  if (!found.by_member.length) return null;
  const member = found.has_levels ? "level" : "opponent";
  const best = (name) =>
    found.references.map(([, each]) => each.best_response?.[name]).filter((value) => typeof value === "number");
  const exploited = new Map(found.exploitation_by_member ?? []);
  const values = found.by_member.flatMap(([, scores]) => scores.map((each) => each.value));
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const rows = [...found.by_member]
    .sort((a, b) => a[1].at(-1).value - b[1].at(-1).value)
    .map(([name, scores]) => {
      const replies = best(name);
      const top = replies.length ? replies.reduce((sum, value) => sum + value, 0) / replies.length : null;
      const share = exploited.get(name);
      return [
        h("th", { scope: "row", class: "met" }, opponent(name, about[name], trialsOf(name))),
        ...scores.map((each) => barCell(signed(each.value), each.value, low, high, interval(each))),
        h("td", { class: "number" }, top === null ? "–" : signed(top)),
        h("td", { class: "number", title: interval(share) }, share ? plain(share.value) : "–"),
      ];
    });
  const heads = [
    `${member}, hardest first`,
    ...found.by_member[0][1].map((_, index) => `episode ${index + 1}`),
    "best reply",
    "exploitation",
  ];
  return h(
    "details",
    { open: rows.length <= 12 },
    h("summary", {}, `Each of ${count(rows.length, member)}`),
    table(heads, rows),
    found.has_levels ? null : h("p", { class: "quiet" }, OPPONENTS),
  );
}
