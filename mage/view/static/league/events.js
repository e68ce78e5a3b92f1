// What happened in a league, and why.
import { h } from "../dom.js";
import { shortNumber } from "../format.js";
import { table } from "../report/table.js";

const MOST = 200;

// Kinds of events: a sign, a word for the list, and what is chosen to see only these.
export const KINDS = {
  exploit: ["⇢", "copied", "copies"],
  rollback: ["↺", "rolled back", "rollbacks"],
  snapshot: ["●", "kept", "snapshots"],
  evict: ["○", "retired", "retired"],
};

// One event of a run's log in words.
export function leagueSentence(event) {
  const why = event.reason ? `: ${event.reason}` : "";
  return `${deed(event)}${why}${changesText(event.changes)}`;
}

// The newest events first, of one kind or of all.
export function eventTable(events, kind) {
  const chosen = events.filter((event) => kind === "all" || event.league === kind).reverse();
  if (!chosen.length) return h("p", { class: "quiet" }, "Nothing of this kind has happened yet.");
  const groups = together(chosen);
  const rows = groups.slice(0, MOST).map(([event, ...others]) => [
    h("td", { class: "number" }, event.step),
    h("td", {}, sign(event.league)),
    h(
      "td",
      { class: "wide" },
      h("strong", {}, others.length ? [...others.reverse(), event].map((each) => each.member).join(", ") : deed(event)),
      h("div", { class: "quiet" }, event.reason),
    ),
    h("td", {}, changes(event.changes)),
  ]);
  const more = groups.length > MOST ? h("p", { class: "quiet" }, `The newest ${MOST} of ${groups.length}.`) : null;
  return [table(["step", "what", "who and why", "what changed"], rows), more];
}

// Events side by side where the same was done to several at once, for the same reason: snapshots, above all.
function together(events) {
  const groups = [];
  for (const event of events) {
    const last = groups.at(-1)?.[0];
    const isSame = last && ["snapshot", "evict"].includes(event.league) && alike(last) === alike(event);
    if (isSame) groups.at(-1).push(event);
    else groups.push([event]);
  }
  return groups;
}

function alike({ step, league, reason }) {
  return JSON.stringify([step, league, reason]);
}

// Who did what, without the reason.
export function deed({ league, member, parent }) {
  if (league === "exploit") return `${member} copied ${parent}`;
  if (league === "rollback") return `${member} went back to ${parent ?? "an earlier state"}`;
  if (league === "snapshot") return `${member} was kept`;
  if (league === "evict") return `${member} was retired`;
  return `${member}: ${league}`;
}

function sign(kind) {
  const isKnown = Object.hasOwn(KINDS, kind);
  const [mark, word] = isKnown ? KINDS[kind] : ["·", kind];
  return h("span", { class: isKnown ? `chip ${kind}` : "chip" }, h("span", { "aria-hidden": "true" }, `${mark} `), word);
}

function changes(found) {
  const rows = changed(found).map((text) => h("div", { class: "number" }, text));
  return rows.length ? rows : null;
}

function changed(found) {
  return Object.entries(found ?? {}).map(([key, [before, after]]) => `${key} ${shortNumber(before)} → ${shortNumber(after)}`);
}

function changesText(found) {
  const parts = changed(found);
  return parts.length ? ` (${parts.join(", ")})` : "";
}
