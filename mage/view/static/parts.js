// Small things that several pages show.
import { h } from "./dom.js";
import { count, estimate, interval, shortName, signed } from "./format.js";

const STATUS = {
  running: ["●", "trains now"],
  finished: ["✓", "all steps are done"],
  stopped: ["■", "stopped before its end; can be resumed"],
  crashed: ["✕", "ended by an error or a kill; can be resumed"],
  alarmed: ["▲", "an alarm sounded: look at the events"],
  broken: ["!", "its files cannot be read"],
};

// How a run stands, as a sign and a word.
export function statusChip(status, why = null) {
  const [sign, meaning] = STATUS[status] ?? ["·", ""];
  return h(
    "span",
    { class: `chip ${status}`, title: why || meaning },
    h("span", { "aria-hidden": "true" }, `${sign} `),
    status,
  );
}

// How many alarms sounded, where any did.
export function alarmChip(number) {
  if (!number) return null;
  return h("span", { class: "chip alarmed", title: "what they say stands on the page of the run" }, `▲ ${count(number, "alarm")}`);
}

// A score in a coloured box: green above zero, red below, with its number always readable.
export function scoreBox(value, title = null) {
  const tone = value > 0 ? "good" : value < 0 ? "bad" : "even";
  return h("span", { class: `score ${tone}`, title }, signed(value));
}

// Who sits in a seat, in the seat's colour; long settings are left to those who hover, and to words beside it.
export function who(seat, name, isAgent) {
  const role = isAgent ? h("span", { class: "role" }, "agent") : null;
  return h(
    "span",
    { class: `who seat-${seat % 6}` },
    h("span", { class: "dot" }),
    h("span", { class: "name", title: name }, shortName(name)),
    role,
  );
}

// An opponent for a table: its name, as a link where there is one, and below it what it does, in words.
export function opponent(spec, words, href = null) {
  const name = words ? shortName(spec) : spec;
  return [
    href ? h("a", { href, title: spec }, name) : h("span", { title: spec }, name),
    words ? h("div", { class: "quiet words" }, words) : null,
  ];
}

// A choice of one among a few, as buttons: [[value, label, title], …].
export function choice(label, options, value, chosen) {
  const buttons = options.map(([each, name, title]) => {
    const click = () => {
      for (const other of buttons)
        other.setAttribute("aria-pressed", other === buttons[options.findIndex(([o]) => o === each)]);
      chosen(each);
    };
    return h(
      "button",
      { type: "button", "aria-pressed": each === value, title, onclick: click, dataset: { value: each } },
      name,
    );
  });
  return h(
    "span",
    { class: "choice", role: "group", "aria-label": label },
    h("span", { class: "label" }, label),
    buttons,
  );
}

// A labelled drop-down: [[value, label], …], or [value, label, group] where entries stand in groups.
export function select(label, options, value, chosen) {
  const entry = ([each, name]) => h("option", { value: each, selected: each === value }, name);
  const groups = Map.groupBy(options, ([, , group]) => group ?? null);
  const entries = [...groups].map(([group, some]) =>
    group === null ? some.map(entry) : h("optgroup", { label: group }, some.map(entry)),
  );
  const box = h("select", { onchange: (event) => chosen(event.target.value) }, entries);
  return h("label", { class: "field" }, h("span", { class: "label" }, label), box);
}

// An estimate with its interval, ready for a cell of a table.
export function estimateCell(found, properties = {}) {
  return h("td", { class: "number", title: interval(found), ...properties }, estimate(found));
}

// A card with a title.
export function card(title, ...children) {
  return h("section", { class: "card" }, title ? h("h2", {}, title) : null, children);
}

// Names and values in two columns: [[name, value], …]; values that are null are left out.
export function facts(rows, classes = "facts") {
  const given = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h(
    "dl",
    { class: classes },
    given.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}
