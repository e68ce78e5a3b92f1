// The stage: one moment of a trial, drawn large, with all that is known about it.
import { draw, hasDrawing } from "../draw/registry.js";
import { h } from "../dom.js";
import { parseSpec, percent, signed } from "../format.js";
import { facts, who } from "../parts.js";
import { memoryCard } from "./memory.js";
import { probabilityOf, sceneOf, seatNames } from "./model.js";
import { isReadable, tokenStrip, tokenTable } from "./tokens.js";

// options: {seenBy, colour, scale, layout}; where episodes stand side by side, each has its own picture.
export function stage(trial, moment, options) {
  const title = h("h2", {}, heading(trial, moment));
  if (moment.kind === "between") return h("div", {}, title, memoryCard(trial, moment, options));
  const scene = sceneOf(trial, moment, options.seenBy);
  const picture = options.layout === "columns" ? null : h("div", { class: "picture" }, draw(scene));
  return h(
    "div",
    {},
    title,
    picture,
    moment.kind === "end" ? ending(trial, moment, options) : decision(trial, moment, options),
  );
}

function heading(trial, moment) {
  const episode = `Episode ${moment.episode + 1} of ${trial.task.episodes}`;
  if (moment.kind === "end") return `${episode}: the end`;
  if (moment.kind === "between") return `After episode ${moment.episode + 1}`;
  return `${episode}, move ${moment.number + 1} of ${trial.episodes[moment.episode].turns.length}`;
}

function decision(trial, moment, options) {
  const turn = moment.turn;
  const isAgent = turn.seat === trial.task.seat;
  const likely = probabilityOf(turn);
  const isSaid = options.layout !== "columns" && !hasDrawing(parseSpec(trial.task.world).name);
  const isShown = turn.calls.length > 0 && isReadable(turn.calls);
  const said =
    turn.text && turn.text !== turn.action && !isShown
      ? [h("h3", {}, "What it said"), h("blockquote", { class: "note" }, turn.text)]
      : null;
  const played =
    turn.action === null
      ? h("strong", { class: "bad" }, "nothing: it gives the episode up")
      : h("strong", {}, turn.action);
  return [
    facts([
      ["to move", who(turn.seat, seatNames(trial, options.seenBy)[turn.seat], isAgent)],
      ["it sees", isSaid ? null : h("pre", { class: "seen" }, turn.observation)],
      [
        "it may play",
        turn.actions.length
          ? h(
              "span",
              { class: "actions" },
              turn.actions.map((action) => h("span", { class: action === turn.action ? "picked" : "" }, action)),
            )
          : "anything",
      ],
      [
        "it plays",
        [
          played,
          likely === null
            ? ""
            : h("span", { class: "quiet" }, ` with probability ${percent(likely)}`),
        ],
      ],
      ["it gains", signed(turn.reward)],
      ["return", turn.credit ? [signed(turn.credit.return, 3), quiet(RETURN)] : null],
      [
        "advantage",
        turn.credit
          ? turn.credit.advantage === null
            ? quiet("none: no update used this move")
            : [signed(turn.credit.advantage, 3), quiet(ADVANTAGE)]
          : null,
      ],
    ]),
    said,
    turn.calls.length
      ? [
          h("h3", {}, isShown ? "What the model wrote, token by token" : "Its tokens, whose text is not known here"),
          tokenStrip(turn.calls, options.colour, options.scale),
          tokenTable(turn.calls),
        ]
      : null,
  ];
}

const RETURN = " what training pays this move for: all that followed, later episodes too";
const ADVANTAGE = " how much better that was than expected: the update makes the move likelier, or less likely";

function quiet(words) {
  return h("span", { class: "quiet" }, words);
}

function ending(trial, moment, options) {
  const result = trial.episodes[moment.episode].result;
  const names = seatNames(trial, options.seenBy);
  const rows = names.map((name, seat) => {
    if (options.seenBy !== null && seat !== options.seenBy) return null;
    const score = result.returns[seat];
    const told = h("pre", { class: "seen" }, result.outcomes[seat] ?? "");
    return h("div", { class: "told" }, who(seat, name, seat === trial.task.seat), h("strong", {}, signed(score)), told);
  });
  const gaveUp = result.forfeited_by === null ? "" : ` ${names[result.forfeited_by]} gave up.`;
  const how =
    { finished: "", forfeited: `Not played out:${gaveUp}`, truncated: "Stopped: it became too long." }[result.ending] ??
    result.ending;
  return [how ? h("p", { class: "bad" }, how) : null, h("h3", {}, "What each seat is told"), rows];
}
