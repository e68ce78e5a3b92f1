// One run: how it stands, how it learns while one watches, what happened, and what it was told to do.
import { gathered, inWords, newest, when } from "../alarms.js";
import { get, runPath, watch } from "../data.js";
import { h, renew, show } from "../dom.js";
import { ago, count, worldTitle } from "../format.js";
import { lineChart } from "../chart/line.js";
import { boundsOf, Curves, metricSelect, keyName, smooth } from "../curves.js";
import { leagueSentence } from "../league/events.js";
import { alarmChip, card, facts, statusChip } from "../parts.js";
import { inShort } from "../report/splits.js";
import { means } from "../report/sweep.js";
import { exploitability, standings } from "../report/world.js";
import { toHash } from "../route.js";
import { workersCard } from "../workers.js";

const SMOOTH = 5;
// What an event tells of a run, as the run itself has it.
const REPORTED = ["status", "why", "step", "trials", "alarms", "updated"];

export async function runPage({ root, run: id }) {
  const curves = new Curves(id);
  let run = await get(runPath(id));
  let health = null;
  if (run.status === "broken") return broken(root, run);
  await curves.grow();
  health = await healthOf(run);
  const head = h("div");
  const scores = lineChart({ label: "Score in training, by episode of the trial", xLabel: "step", least: 0.2 });
  const other = otherChart(curves);
  const events = h("div");
  const workers = h("div");
  const howTo = h("p", { class: "quiet" });
  const trains = h(
    "div",
    { class: "columns two" },
    card(null, scores.element, howTo),
    card(null, other.element),
  );
  const rest = h("div");

  function paint() {
    show(head, summary(run));
    trains.hidden = !curves.scoreKeys.length;
    const bounds = trainingBounds(curves, run);
    scores.draw({ series: scoreSeries(curves), bounds });
    show(howTo, HOW_TO_READ + (bounds.length ? ABOVE : RISING));
    other.paint();
    renew(workers, health ? workersCard(health, run) : null);
    show(events, eventList(run.events ?? []));
  }

  async function refresh() {
    run = await get(runPath(id));
    if (run.step < curves.last) curves.forget();
    await curves.grow();
    health = await healthOf(run);
    paint();
  }

  show(root, head, trains, workers, events, rest);
  paint();
  show(rest, await latestEvaluation(run), await belongings(run), links(run), configuration(run.config ?? {}));
  return { leave: watch({ run: id }, refresh, (told) => REPORTED.every((key) => told[key] === run[key])) };
}

// The health of a run's workers, where it has some; {error} where that cannot be read.
async function healthOf(run) {
  if (!run.workers) return null;
  return get(runPath(run.id, "workers")).catch((error) => ({ error: error.message }));
}

const HOW_TO_READ =
  "A trial is several episodes with the same hidden opponent or task. In the first one the agent knows nothing of it; ";
const ABOVE =
  "what lies above “best memoryless” in a later one can only come from what it remembers of the earlier ones.";
const RISING = "where later episodes score more, it uses what it remembers of the earlier ones.";

function scoreSeries(curves) {
  return curves.scoreKeys.flatMap((key, index) => {
    const points = curves.points(key);
    const name = `episode ${index + 1}`;
    return [
      { name: "", colour: index, points, thin: true },
      { name, colour: index, points: smooth(points, SMOOTH) },
    ];
  });
}

function trainingBounds(curves, run) {
  const last = curves.scoreKeys.at(-1);
  return last ? boundsOf(last, run) : [];
}

// A second chart for any other metric of the run.
function otherChart(curves) {
  const chart = lineChart({ label: "Any other metric", xLabel: "step" });
  const controls = h("div", { class: "controls" });
  const element = h("div", {}, controls, chart.element);
  let key = "entropy/play";
  let offered = null;
  function choose(value) {
    key = value;
    paint();
  }
  function paint() {
    const keys = curves.keys.filter((each) => !each.startsWith("score/episode_")).sort();
    if (!keys.includes(key)) key = keys[0] ?? "";
    if (keys.join() !== offered) show(controls, metricSelect(keys, key, choose));
    offered = keys.join();
    chart.draw({ series: key ? [{ name: keyName(key), colour: 3, points: curves.points(key) }] : [], bounds: [] });
  }
  return { element, paint };
}

function summary(run) {
  const config = run.config ?? {};
  const progress = run.steps
    ? [`${run.step ?? 0} of ${run.steps} `, h("progress", { max: run.steps, value: run.step ?? 0 })]
    : null;
  return h(
    "section",
    { class: "card" },
    h("h1", {}, run.name, " ", statusChip(run.status, run.why), " ", alarmChip(run.alarms)),
    run.why ? h("p", { class: "why" }, inWords(run.why)) : null,
    (run.damage ?? []).map((each) => h("p", { class: "warn" }, each)),
    config.description ? h("p", { class: "lead" }, config.description) : null,
    facts(
      [
        ["made by", `mage ${run.kind === "crossplay" ? "cross-play" : run.kind}`],
        ["world", run.world ? worldTitle(run.world) : null],
        ["model", config.agent?.model],
        ["memory", config.agent?.memory],
        [run.kind === "sweep" ? "runs" : "steps", progress],
        [
          "trials on file",
          run.trials ? h("a", { href: toHash(["runs", run.id, "trials"]) }, count(run.trials, "trial")) : "none",
        ],
        ["last change", ago(run.updated)],
      ],
      "facts wide",
    ),
  );
}

function eventList(events) {
  if (!events.length) return null;
  const rows = gathered(events).map((entry) => (entry.event ? happened(entry.event) : sounded(entry)));
  return card("What happened", h("ul", { class: "plain" }, rows));
}

function happened(event) {
  return h("li", {}, h("strong", {}, `step ${event.step}`), " ", sentence(event));
}

function sounded(alarm) {
  const meaning = alarm.meaning ? h("span", { class: "quiet" }, `: ${alarm.meaning}`) : null;
  return h(
    "li",
    {},
    h("strong", { class: "alarm" }, `▲ ${when(alarm)}`),
    ` ${alarm.what}${newest(alarm)}`,
    meaning,
  );
}

function sentence(event) {
  if (event.league) return leagueSentence(event);
  if (event.rollback !== undefined) return `went back to the weights of step ${event.rollback}`;
  if (event.warning) return event.warning;
  if (event.changed)
    return `${event.changed} is ${JSON.stringify(event.new)} from here on, not ${JSON.stringify(event.old)}`;
  return JSON.stringify(event);
}

// What its first report says in short: the last evaluation of a run, or the only one of an evaluation.
async function latestEvaluation(run) {
  const [name] = run.evaluations ?? [];
  if (name === undefined) return null;
  const report = await get(runPath(run.id, "evaluations", name)).catch(() => null);
  const more = h("p", {}, h("a", { href: toHash(["runs", run.id, "evaluations", name]) }, "The whole evaluation"));
  if (report?.reports?.every((each) => each.agent && each.control)) return inShort(report.reports, more);
  if (report?.found?.cells) return standings(report.found, report.about ?? {}, more);
  if (report?.found?.first) return exploitability(report.found, more);
  return report?.runs ? means(report, more) : null;
}

// The runs of a sweep, or the evaluations of a run that have trials of their own.
async function belongings(run) {
  if (!run.children?.length) return null;
  const found = (await get("/api/runs"))
    .filter((each) => run.children.includes(each.id))
    .sort((a, b) => a.name.localeCompare(b.name));
  const rows = found.map((each) =>
    h(
      "li",
      {},
      h("a", { href: toHash(["runs", each.id]) }, each.name.slice(run.name.length + 1)),
      " ",
      statusChip(each.status, each.why),
    ),
  );
  const curves = found.filter((each) => each.spark.length).map((each) => each.id);
  const compare =
    curves.length > 1
      ? h(
          "p",
          {},
          h("a", { href: toHash(["runs"], { compare: curves.join(" "), over: "recipes" }) }, "Compare their curves"),
        )
      : null;
  return card("What belongs to it", h("ul", { class: "plain" }, rows), compare);
}

function links(run) {
  const at = (...tail) => toHash(["runs", run.id, ...tail]);
  const evaluations = (run.evaluations ?? []).map((name) => h("li", {}, h("a", { href: at("evaluations", name) }, name)));
  const saved = run.checkpoints?.length
    ? `Weights were kept at ${run.checkpoints.length === 1 ? "step" : "steps"} ${run.checkpoints.join(", ")}.`
    : "";
  return card(
    "Look closer",
    h(
      "ul",
      { class: "plain" },
      run.trials
        ? h("li", {}, h("a", { href: at("trials") }, "Trials"), ": what the agent saw, wrote and did, move by move")
        : null,
      run.kind === "train"
        ? h("li", {}, h("a", { href: at("pairs") }, "Before and after"), ": the same task at two checkpoints")
        : null,
      run.league
        ? h("li", {}, h("a", { href: at("league") }, "League"), ": members, pay-offs and lineage")
        : null,
      evaluations.length
        ? h("li", {}, "Reports, with intervals", h("ul", {}, evaluations))
        : null,
    ),
    saved ? h("p", { class: "quiet" }, saved) : null,
  );
}

function configuration(config) {
  const rows = flat(config).map(([key, value]) => h("tr", {}, h("th", { scope: "row" }, key), h("td", {}, value)));
  if (!rows.length) return null;
  return h(
    "details",
    { class: "card" },
    h("summary", {}, `All ${rows.length} settings of this run`),
    h("table", { class: "settings" }, h("tbody", {}, rows)),
  );
}

function flat(value, prefix = "") {
  return Object.entries(value).flatMap(([key, each]) => {
    const isSection = each !== null && typeof each === "object" && !Array.isArray(each);
    return isSection
      ? flat(each, `${prefix}${key}.`)
      : [[prefix + key, typeof each === "string" ? each : JSON.stringify(each)]];
  });
}

function broken(root, run) {
  const problem = h(
    "div",
    { class: "card problem", role: "alert" },
    h("h1", {}, run.name, " ", statusChip("broken")),
    h("p", {}, "This run cannot be read. Nothing was changed on disk."),
    h("p", { class: "why" }, run.why ?? ""),
  );
  show(root, problem);
  return {};
}
