// What alarms say, in words; those that sounded again and again are told once.
import { count, shortNumber } from "./format.js";

const METRICS = {
  "entropy/play": ["entropy of moves", "it hardly tries anything but one move any more"],
  "play/invalid_share": ["share of replies that cannot be used", "most of what it writes is no legal move"],
  "groups/dead_share": ["share of dead groups", "all trials of a task went alike, so there is nothing to learn from them"],
  "play/seat_gap": ["gap between seats", "it scores much more in one seat than in another"],
  "gap/mean_difference": ["gap between engine and learner", "they differ in the probabilities of the same tokens"],
  "gap/outside_0.8_1.25": [
    "share of tokens on which engine and learner differ by a fifth",
    "some updates count for more, or less, than they should",
  ],
  "lag/max": ["lag of play behind learning", "trials were played by older weights than rollout.lag allows"],
  "lag/truncated_share": [
    "share of truncated importance weights",
    "the weights that played are too far from those that learn; lower rollout.lag or learner.lr",
  ],
};
const STREAK = /^(\S+) is (over|under) (\S+) for (\d+) steps \((.+)\)$/;

// What an alarm means: {key, what, meaning, value}; of one that is not known, its own words.
export function read(alarm) {
  const [, key, side, limit, , value] = STREAK.exec(alarm) ?? [];
  const [name, meaning] = METRICS[key] ?? [];
  if (!name) return { key: alarm, what: alarm, meaning: "", value: null };
  return { key, what: `${name} ${side} ${limit}`, meaning, value };
}

// The reason of a status, with the names of metrics in words.
export function inWords(why) {
  const [, start, alarm] = /^(alarm at step \d+: )(.+)$/s.exec(why) ?? [];
  return alarm ? start + read(alarm).what : why;
}

// Events in order, the alarms about one metric as a single entry: {first, last, times, what, meaning, value} or {event}.
export function gathered(events) {
  const known = new Map();
  const found = [];
  for (const event of events) {
    if (!event.alarm) {
      found.push({ event, last: event.step });
      continue;
    }
    const alarm = read(event.alarm);
    if (!known.has(alarm.key)) {
      known.set(alarm.key, { ...alarm, first: event.step, times: 0 });
      found.push(known.get(alarm.key));
    }
    const entry = known.get(alarm.key);
    Object.assign(entry, { last: event.step, value: alarm.value, times: entry.times + 1 });
  }
  return found;
}

// When an alarm sounded: "step 5", or "steps 5 to 25, 5 times".
export function when({ first, last, times }) {
  return times === 1 ? `step ${first}` : `steps ${first} to ${last}, ${count(times, "time")}`;
}

// Its newest value in brackets, where it has one.
export function newest({ value }) {
  return value === null ? "" : ` (at last ${shortNumber(Number(value))})`;
}
