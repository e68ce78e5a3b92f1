// The health of rollout workers: how many are alive, what each does, and which died, were broken or do not answer.
import { spark } from "./chart/spark.js";
import { h } from "./dom.js";
import { ago, count, percent, plain, shortNumber } from "./format.js";
import { card } from "./parts.js";
import { table } from "./report/table.js";

// A worker is called slower than the others where a trial takes it so many times longer than their median.
const SLOWER = 2;
const MOST_ROWS = 8;
const MOST_INCIDENTS = 10;
const STATES = {
  alive: ["●", "running", "alive"],
  slow: ["▲", "alarmed", "does not answer"],
  building: ["✕", "crashed", "is being built"],
  broken: ["✕", "crashed", "is broken"],
  unused: ["○", "", "not used any more"],
};

// report: what the server answers about workers, or {error}.
export function workersCard(report, run) {
  if (report.error) return card("Workers", h("p", { class: "warn" }, report.error));
  return card(
    "Workers",
    h("p", {}, sentence(report, run)),
    standings(report, run),
    incidents(report.incidents),
    h("p", { class: "quiet" }, HOW_TO_READ),
  );
}

const HOW_TO_READ =
  "Busy: the share of time in which it had trials to play. A trial: seconds for each, the trials of a chunk played side " +
  "by side, with its course over the steps. Both are means over the last ten steps; trials, deaths and how often it was " +
  "broken are of the whole run. A worker is broken where it fails four trials in a row that another can play. One that " +
  "dies or is broken is built again, and its trials are replayed to the same bits.";

function sentence({ planned, alive, deaths, broken, replayed, trials_per_s: speed }, run) {
  const isRunning = run.status === "running";
  const there = planned
    ? `${alive} of ${count(planned, "worker")} ${alive === 1 ? "is" : "are"} alive`
    : "It goes on without workers";
  const many = isRunning || !planned ? there : `It had ${count(planned, "worker")}`;
  const ended = [deaths ? count(deaths, "death") : "none has died", broken ? `${broken} broken` : null];
  if (deaths || broken) ended.push(`${count(replayed, "trial")} replayed`);
  const died = ended.filter(Boolean).join(", ");
  const fast = speed ? `; ${shortNumber(speed)} trials a second in the last step` : "";
  return h("span", {}, h("strong", { class: isRunning && alive < planned ? "bad" : null }, many), `; ${died}${fast}.`);
}

function standings({ workers }, run) {
  if (!workers.length) return h("p", { class: "quiet" }, "No worker has been built yet.");
  const rows = workers.map((worker) => [
    h("th", { scope: "row" }, `worker ${worker.worker}`),
    stateOf(worker, run),
    h("td", { class: "number" }, worker.trials),
    h("td", { class: "number" }, worker.busy_share === null ? "–" : percent(worker.busy_share)),
    secondsOf(worker, workers),
    h("td", { class: "number" }, worker.host_gib === null ? "–" : `${plain(worker.host_gib, 1)} GiB`),
    h("td", { class: `number${worker.deaths ? " bad" : ""}` }, worker.deaths),
    h("td", { class: `number${worker.broken ? " bad" : ""}` }, worker.broken),
  ]);
  const heads = ["", "state", "trials", "busy", "a trial", "memory", "deaths", "broken"];
  const all = table(heads, rows, "list tight workers");
  if (workers.length <= MOST_ROWS) return all;
  return h("details", {}, h("summary", {}, `All ${workers.length} workers`), all);
}

function stateOf({ state, host, pid, since }, run) {
  const isOver = run.status !== "running" && state !== "unused";
  const [sign, kind, word] = isOver ? ["■", "", "ended"] : STATES[state];
  const title = [host ? `process ${pid} on ${host}` : "", since ? `since ${since}` : ""].filter(Boolean).join(", ");
  return h(
    "td",
    {},
    h("span", { class: `chip ${kind}`, title }, h("span", { "aria-hidden": "true" }, `${sign} `), word),
    host ? h("span", { class: "quiet" }, ` ${host}`) : null,
  );
}

function secondsOf(worker, workers) {
  if (worker.trial_s === null) return h("td", { class: "number" }, "–");
  const others = workers.filter((each) => each !== worker && each.trial_s !== null && each.state !== "unused");
  const usual = median(others.map((each) => each.trial_s));
  const isSlower = usual !== null && worker.state !== "unused" && worker.trial_s > SLOWER * usual;
  const times = isSlower ? ` ▲ ${plain(worker.trial_s / usual, 1)} times the others` : "";
  const label = `seconds of a trial of worker ${worker.worker} over the steps`;
  return h(
    "td",
    { class: `number${isSlower ? " warn" : ""}` },
    h("span", {}, `${shortNumber(worker.trial_s)} s${times}`),
    spark(worker.spark, label),
  );
}

function incidents(found) {
  if (!found.length) return null;
  const rows = found.slice(0, MOST_INCIDENTS).map((each) => {
    const where = h("span", { class: "quiet" }, ` · ${whenAndWhere(each)}`);
    return h("li", {}, h("strong", {}, `step ${each.step}`), ` ${told(each)}`, where);
  });
  const more = found.length - rows.length;
  return [
    h("h3", {}, "What happened to them, newest first"),
    h("ul", { class: "plain incidents" }, rows, more ? h("li", { class: "quiet" }, `and ${more} before`) : null),
  ];
}

function told({ worker, what, error, trials, seconds }) {
  if (what === "slow") return `worker ${worker} had not answered for ${shortNumber(seconds)} s`;
  const replayed = trials ? `; ${count(trials, "trial")} replayed` : "";
  return `worker ${worker} ${what === "broken" ? "was broken" : "died"}${replayed}: ${error ?? "it is not known why"}`;
}

function whenAndWhere({ time, host, pid }) {
  return host ? `${ago(time)}, process ${pid} on ${host}` : ago(time);
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  if (!sorted.length) return null;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
