// The whole trial as a list of moments, episode by episode; one of them is the one on stage.
import { draw } from "../draw/registry.js";
import { h } from "../dom.js";
import { signed, verdict } from "../format.js";
import { who } from "../parts.js";
import { memoryLine } from "./memory.js";
import { momentsOf, sceneOf, seatNames } from "./model.js";
import { isReadable, tokenStrip } from "./tokens.js";

// options: {seenBy, colour, scale, layout}; `go(moment)` is called when one is picked.
export function transcript(trial, moments, options, go) {
  const columns = trial.episodes.map((_, episode) => {
    const own = moments.filter((moment) => moment.episode === episode);
    const end = own.find((moment) => moment.kind === "end");
    const small =
      options.layout === "columns" && end
        ? h("div", { class: "picture small", dataset: { episode } }, draw(sceneOf(trial, end, options.seenBy)))
        : null;
    return h(
      "section",
      { class: "episode" },
      header(trial, episode),
      small,
      h(
        "ol",
        {},
        own.map((moment) => entry(trial, moment, options, go)),
      ),
    );
  });
  return h("div", { class: `transcript ${options.layout}` }, columns);
}

// The end of every episode in one row: what became of the trial at a glance.
export function filmstrip(trial, seenBy) {
  const ends = momentsOf(trial).filter((moment) => moment.kind === "end");
  return h(
    "div",
    { class: "filmstrip" },
    ends.map((end) =>
      h("figure", {}, h("figcaption", {}, header(trial, end.episode)), draw(sceneOf(trial, end, seenBy))),
    ),
  );
}

function header(trial, episode) {
  const result = trial.episodes[episode].result;
  const word =
    result.ending === "finished"
      ? verdict(result, trial.task.seat)
      : result.forfeited_by === trial.task.seat
        ? "gave up"
        : result.ending;
  const full = trial.episodes[episode].is_overflowed ? h("span", { class: "warn" }, " context full") : null;
  return h(
    "header",
    {},
    h("h3", {}, `Episode ${episode + 1}`),
    h("span", { class: `verdict ${word}` }, `${signed(result.returns[trial.task.seat])} ${word}`),
    full,
  );
}

function entry(trial, moment, options, go) {
  const button = h(
    "button",
    { type: "button", class: "pick", onclick: () => go(moment) },
    title(trial, moment, options),
  );
  const parts = h(
    "li",
    { class: `moment ${moment.kind}`, dataset: { at: moment.name } },
    button,
    content(trial, moment, options),
  );
  return parts;
}

function title(trial, moment, options) {
  if (moment.kind === "end") return h("span", { class: "quiet" }, "the end");
  if (moment.kind === "between")
    return h("span", { class: "quiet" }, moment.notes.length ? "it writes to itself" : "between the episodes");
  const turn = moment.turn;
  const gain = turn.reward
    ? h("span", { class: turn.reward > 0 ? "gain good" : "gain bad" }, signed(turn.reward))
    : null;
  return [
    who(turn.seat, seatNames(trial, options.seenBy)[turn.seat], false),
    h("strong", {}, turn.action ?? "gives up"),
    gain,
  ];
}

function content(trial, moment, options) {
  if (moment.kind === "between") return memoryLine(trial, moment, options);
  if (moment.kind === "end") {
    const told = trial.episodes[moment.episode].result.outcomes[trial.task.seat] ?? "";
    const isDrawn = /^ {2}|\n {2}/.test(told); // a board in letters, whose columns must stand below each other
    return h("div", { class: `quiet told-text${isDrawn ? " drawn" : ""}` }, told);
  }
  const turn = moment.turn;
  const seen = options.seenBy === null ? null : h("pre", { class: "seen" }, turn.observation);
  const said =
    turn.calls.length && !isReadable(turn.calls) && turn.text !== turn.action
      ? h("div", { class: "quiet told-text" }, turn.text)
      : null;
  return [seen, said, turn.calls.length ? tokenStrip(turn.calls, options.colour, options.scale) : null];
}
