// The curves of runs: loaded once, grown while a run trains, smoothed, named and averaged over seeds.
import { get, runPath } from "./data.js";
import { parseSpec } from "./format.js";
import { select } from "./parts.js";

// Half the width of a 95 % interval over n seeds, in standard errors (Student's t), for n - 1 from 1.
const STUDENT = [12.71, 4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
const POINTS = 1000;
// Exact values that differ by less are the same.
const ROUNDING = 1e-9;

// The metrics of one run by key, as lists of [step, value]; `grow()` fetches what came since.
export class Curves {
  constructor(run) {
    this.run = run;
    this.byKey = new Map();
    this.last = null;
  }

  // Fetch what came since. The newest step is fetched again: it may have been evaluated after it was written.
  async grow() {
    const after = this.last === null ? null : this.last - 1;
    const { steps, series } = await get(runPath(this.run, "metrics"), { after, points: POINTS });
    if (!steps.length) return;
    for (const [key, values] of Object.entries(series)) {
      const known = (this.byKey.get(key) ?? []).filter(([step]) => step < steps[0]);
      values.forEach((value, index) => value !== null && known.push([steps[index], value]));
      if (known.length) this.byKey.set(key, known);
    }
    this.last = steps[steps.length - 1];
  }

  points(key) {
    return this.byKey.get(key) ?? [];
  }

  // Begin anew: the run was cut back or written again.
  forget() {
    this.byKey.clear();
    this.last = null;
  }

  get keys() {
    return [...this.byKey.keys()];
  }

  // The keys of the scores by episode, first to last.
  get scoreKeys() {
    const number = (key) => Number(key.slice("score/episode_".length));
    return this.keys.filter((key) => key.startsWith("score/episode_")).sort((a, b) => number(a) - number(b));
  }
}

// A moving mean over `width` points; the points stay where they are.
export function smooth(points, width) {
  if (width < 2) return points;
  let sum = 0;
  return points.map(([x, y], index) => {
    sum += y;
    if (index >= width) sum -= points[index - width][1];
    return [x, sum / Math.min(index + 1, width)];
  });
}

// The mean of several curves at the steps that all have, and its 95 % interval over them; null for one curve.
export function average(curves) {
  const byStep = new Map();
  for (const curve of curves) for (const [x, y] of curve) byStep.set(x, [...(byStep.get(x) ?? []), y]);
  const whole = [...byStep].filter(([, values]) => values.length === curves.length).sort((a, b) => a[0] - b[0]);
  const points = whole.map(([x, values]) => [x, mean(values)]);
  if (curves.length < 2) return { points, band: null };
  const band = whole.map(([x, values]) => {
    const half = halfWidth(values);
    return [x, mean(values) - half, mean(values) + half];
  });
  return { points, band };
}

// A choice among metrics by their names.
export function metricSelect(keys, key, chosen) {
  return select(
    "Metric",
    keys.map((each) => [each, keyName(each)]),
    key,
    chosen,
  );
}

// What a key is, for people; a key without a name is its own.
export function keyName(key) {
  const episode = /^score\/episode_(\d+)$/.exec(key);
  if (episode) return `score in episode ${episode[1]}`;
  const evaluated = /^eval\/(.+)\/(score|control)_(\d+)$/.exec(key);
  if (evaluated) return `${evaluated[1]}: episode ${evaluated[3]}${evaluated[2] === "control" ? " without memory" : ""}`;
  const over = /^eval\/(.+)\/over_control$/.exec(key);
  if (over) return `${over[1]}: adaptation over control`;
  return NAMES[key] ?? key;
}

const NAMES = {
  "score/adaptation": "adaptation: last minus first episode",
  "entropy/play": "entropy of moves (1 even, 0 certain)",
  "entropy/reflect": "entropy of reflections",
  "groups/dead_share": "dead groups: share that teaches nothing",
  "play/invalid_share": "invalid replies: share",
  "play/forfeit_share": "forfeited episodes: share",
  "play/seat_gap": "gap between seats",
  "gap/mean_difference": "engine and learner: difference of log-probabilities",
  "lag/mean": "lag: updates since the weights that played, mean",
  "lag/max": "lag: updates since the weights that played, most",
  "lag/truncated_share": "importance weights truncated: share",
  "learner/loss": "loss",
  "learner/grad_norm": "norm of the gradient",
  "learner/kl": "divergence from the initial weights",
  "learner/tokens": "tokens in a step",
};

// The exact values that a key is held against: [{name, y}]; none if they were not computed.
export function boundsOf(key, run) {
  const evaluated = /^eval\/(.+)\/(?:score|control)_(\d+)$/.exec(key);
  const split = evaluated ? evaluated[1] : /^score\/episode_/.test(key) ? trainedSplit(run.config?.population) : null;
  return splitBounds(run.bounds?.[split]);
}

// The split whose values hold in training: none where others are drawn besides, or some more often than others.
function trainedSplit(population) {
  const isEven = new Set(population?.weights ?? []).size < 2;
  return population?.split && !population.members?.length && isEven ? population.split : null;
}

// The lines of one split: {memoryless, myopic, limit}, each of which may be unknown. Myopic Bayes is a line only where
// it differs from the others.
export function splitBounds(bounds) {
  const known = [
    { name: "best memoryless", y: bounds?.memoryless },
    { name: "limit", y: bounds?.limit },
  ].filter((bound) => typeof bound.y === "number");
  const myopic = { name: "myopic Bayes", y: bounds?.myopic };
  const isApart = typeof myopic.y === "number" && known.every((bound) => Math.abs(bound.y - myopic.y) > ROUNDING);
  return isApart ? [...known, myopic] : known;
}

// What runs that differ only by their seed have in common.
export function family(run) {
  return run.recipe || parseSpec(run.world ?? run.name).name;
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function halfWidth(values) {
  const middle = mean(values);
  const variance = values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1);
  return (STUDENT[values.length - 2] ?? 1.96) * Math.sqrt(variance / values.length);
}
