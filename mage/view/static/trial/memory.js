// What lies between two episodes: what the agent wrote to itself, what it carries on, and what changed.
import { h } from "../dom.js";
import { count } from "../format.js";
import { changes } from "./diff.js";
import { isReadable, tokenStrip, tokenTable } from "./tokens.js";

export function memoryCard(trial, moment, options) {
  const boundary = trial.memory.find((each) => each.after === moment.episode);
  return h(
    "div",
    { class: "memory" },
    writing(moment, options),
    boundary
      ? crossing(trial, boundary)
      : h("p", { class: "quiet" }, "It was the last episode: nothing is carried on."),
  );
}

// The same in one line, for the transcript.
export function memoryLine(trial, moment, options) {
  const boundary = trial.memory.find((each) => each.after === moment.episode);
  const written = moment.notes.map((note) =>
    note.calls.length && isReadable(note.calls)
      ? tokenStrip(note.calls, options.colour, options.scale)
      : h("q", {}, note.action ?? ""),
  );
  const carried = boundary ? h("div", { class: "quiet" }, `carries on: ${boundary.carries}`) : null;
  return [written, carried];
}

function writing(moment, options) {
  if (!moment.notes.length) return h("p", { class: "quiet" }, "It writes nothing here.");
  return moment.notes.map((note) => [
    h("h3", {}, "It writes to itself"),
    h("blockquote", { class: "note" }, note.action || "(nothing)"),
    note.calls.length ? [tokenStrip(note.calls, options.colour, options.scale), tokenTable(note.calls)] : null,
  ]);
}

function crossing(trial, boundary) {
  const earlier = trial.memory.find((each) => each.after === boundary.after - 1);
  return [
    h("h3", {}, `What it carries into episode ${boundary.after + 2}`),
    h("p", {}, h("strong", {}, boundary.carries), size(boundary)),
    boundary.is_overflowed
      ? h("p", { class: "warn" }, "Its context was full: the oldest episodes were dropped.")
      : null,
    boundary.added === null ? null : what(boundary, earlier),
  ];
}

function size(boundary) {
  if (boundary.tokens_after === null) return "";
  const now = count(boundary.tokens_after, "token");
  const fresh = boundary.tokens_after - boundary.tokens_before;
  return boundary.goes_on
    ? `: its stream goes on and has ${now} when it answers next, ${fresh} of them new.`
    : `: a new stream begins and has ${now} when it answers next; before there were ${boundary.tokens_before}.`;
}

// Where the stream goes on, all that is new; where memory is rewritten, line by line what came and what went.
function what(boundary, earlier) {
  if (boundary.goes_on)
    return h(
      "details",
      { open: true },
      h("summary", {}, "What is new in its context"),
      h("pre", { class: "diff" }, h("span", { class: "new" }, boundary.added)),
    );
  if (!earlier || earlier.goes_on || earlier.added === null) {
    return h(
      "details",
      { open: true },
      h("summary", {}, "What the new stream begins with"),
      h("pre", { class: "diff" }, boundary.added),
    );
  }
  const lines = changes(earlier.added, boundary.added).map(([kind, line]) =>
    h("span", { class: kind }, `${{ new: "+ ", gone: "− ", same: "  " }[kind]}${line}\n`),
  );
  return h(
    "details",
    { open: true },
    h("summary", {}, "What changed since the last time"),
    h("pre", { class: "diff" }, lines),
  );
}
