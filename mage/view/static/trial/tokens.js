// What a model wrote, token by token, coloured by what is known of each; the numbers come on hover and as a table.
import { h, show } from "../dom.js";
import { percent, plain, signed } from "../format.js";

export const COLOURS = [
  ["advantage", "advantage", "how much better this turn was than expected: what the update pushes up or down"],
  ["logprob", "log-probability", "how likely the model held this token: the darker, the more surprising"],
  ["entropy", "entropy", "how undecided the model was: the darker, the more"],
  ["none", "nothing", "plain text"],
];

const SURPRISE = 3;

// The calls of a turn as coloured text. `scale` is the advantage that gets the fullest colour.
export function tokenStrip(calls, colour, scale) {
  const parts = calls.map((call, index) => {
    const spans = call.tokens.map((token) => tokenSpan(token, colour, scale));
    const notes = [call.truncated ? "cut short" : null, call.problem ? `cannot be used: ${call.problem}` : null].filter(
      Boolean,
    );
    const remark = notes.length ? h("span", { class: "problem" }, ` (${notes.join("; ")})`) : null;
    return h(
      "div",
      { class: "call" },
      calls.length > 1 ? h("span", { class: "quiet" }, `try ${index + 1}: `) : null,
      h("span", { class: "tokens" }, spans),
      remark,
    );
  });
  return h("div", { class: "strip" }, parts);
}

// Whether the text of the tokens is known; without the tokenizer that made them it is not.
export function isReadable(calls) {
  return calls.every((call) => call.tokens.every((token) => token.text !== null));
}

// A table of every token with its numbers, for those who cannot hover.
export function tokenTable(calls) {
  const heads = ["token", "log-probability", "probability", "entropy", "advantage"];
  const rows = calls
    .flatMap((call) => call.tokens)
    .map((token) =>
      h(
        "tr",
        {},
        h("td", {}, h("code", {}, shown(token.text))),
        h("td", { class: "number" }, token.forced ? "forced" : plain(token.logprob, 3)),
        h("td", { class: "number" }, token.forced ? "–" : percent(Math.exp(token.logprob))),
        h("td", { class: "number" }, plain(token.entropy, 3)),
        h("td", { class: "number" }, token.advantage === null ? "–" : signed(token.advantage, 3)),
      ),
    );
  const table = h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        heads.map((head) => h("th", { scope: "col" }, head)),
      ),
    ),
    h("tbody", {}, rows),
  );
  return h(
    "details",
    { class: "numbers" },
    h("summary", {}, `Numbers of ${rows.length} ${rows.length === 1 ? "token" : "tokens"}`),
    table,
  );
}

// What the colours mean, beside the controls.
export function legendOf(colour, scale) {
  if (colour === "none") return null;
  const ends = {
    advantage: [`made less likely ${signed(-scale)}`, `${signed(scale)} made likelier`],
    logprob: ["certain", "surprising"],
    entropy: ["decided", "undecided"],
  }[colour];
  return h(
    "span",
    { class: `ramp ${colour}`, role: "img", "aria-label": `from ${ends[0]} to ${ends[1]}` },
    h("span", {}, ends[0]),
    h("span", { class: "bar" }),
    h("span", {}, ends[1]),
  );
}

// The box that follows the pointer over tokens; one for the whole page.
export function tokenHover(root) {
  const box = h("div", { class: "hover", role: "tooltip", hidden: true });
  root.append(box);
  root.addEventListener("pointerover", (event) => {
    const span = event.target.closest?.(".token");
    box.hidden = !span;
    if (!span) return;
    show(
      box,
      span.dataset.about.split("\n").map((line) => h("div", {}, line)),
    );
    const place = span.getBoundingClientRect();
    const left = Math.min(place.left, innerWidth - box.offsetWidth - 12);
    box.style.setProperty("left", `${Math.max(4, left)}px`);
    box.style.setProperty("top", `${place.bottom + 6}px`);
  });
}

function tokenSpan(token, colour, scale) {
  const { tone, share } = heat(token, colour, scale);
  const classes = ["token", tone, token.forced ? "forced" : ""].filter(Boolean).join(" ");
  const properties = {
    class: classes,
    dataset: { about: about(token) },
    vars: { "--heat": `${Math.round(share * 100)}%` },
  };
  return h("span", properties, shown(token.text));
}

function heat(token, colour, scale) {
  if (colour === "advantage" && token.advantage !== null && scale > 0) {
    return { tone: token.advantage < 0 ? "low" : "high", share: Math.min(1, Math.abs(token.advantage) / scale) };
  }
  if (token.forced) return { tone: "", share: 0 };
  if (colour === "logprob") return { tone: "deep", share: Math.min(1, -token.logprob / SURPRISE) };
  if (colour === "entropy" && token.entropy !== null) return { tone: "deep", share: Math.min(1, token.entropy) };
  return { tone: "", share: 0 };
}

function about(token) {
  const lines = [token.text === null ? "a token without text" : JSON.stringify(token.text)];
  if (token.forced) lines.push("forced: nothing else was allowed here");
  else lines.push(`log-probability ${plain(token.logprob, 3)}, that is ${percent(Math.exp(token.logprob))}`);
  if (token.entropy !== null && !token.forced) lines.push(`entropy ${plain(token.entropy, 3)} (1 is even, 0 certain)`);
  lines.push(token.advantage === null ? "advantage: not trained on" : `advantage ${signed(token.advantage, 3)}`);
  return lines.join("\n");
}

// Line breaks keep their place and are seen; so are tokens that are empty or that cannot be decoded.
function shown(text) {
  if (text === null) return "▢";
  return text === "" ? "∅" : text.replaceAll("\n", "⏎\n").replaceAll("\t", "⇥");
}
