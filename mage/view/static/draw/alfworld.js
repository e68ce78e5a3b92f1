// ALFWorld: the receptacles of the room with what is known to be in them, what is carried, and the task. Where a person
// plays, a click on a receptacle goes there, opens it or puts down what is carried, and a click on a thing takes it.
import { h } from "../dom.js";

export function drawHouse(scene) {
  const facts = scene.result ?? scene.facts;
  const places = facts?.places;
  if (!Array.isArray(places) || !places.every((place) => Array.isArray(place) && typeof place[0] === "string")) return null;
  const at = namesIn(facts.at);
  const offered = scene.pick && !scene.result ? scene.offered : [];
  const chosen = scene.result ? "" : (scene.move?.action ?? "");
  const cards = places.map(([name, state, inside]) => card(scene, { name, state, inside, at, facts, offered, chosen }));
  const carried = facts.holding ? `carrying ${withStates(facts, facts.holding)}` : "carrying nothing";
  return h(
    "div",
    { class: "drawing house", role: "group", "aria-label": `room: ${facts.task}` },
    h("p", { class: "house-task" }, `Task: ${facts.task}`),
    h("div", { class: "house-room" }, cards),
    h("p", { class: "house-hands" }, `${carried}; turns left: ${facts.turns_left}`),
  );
}

function card(scene, { name, state, inside, at, facts, offered, chosen }) {
  const isHere = at.includes(name);
  const id = idOf(offered, [`go to ${name}`, `move ${facts.holding} to ${name}`, `open ${name}`]);
  const label = state ? `${name} (${state})` : name;
  const title = id === null ? h("span", { class: "house-name" }, label) : button(scene, id, label, "house-name");
  const classes = ["house-place", isHere ? "here" : "", ` ${chosen} `.includes(` ${name} `) ? "chosen" : ""];
  return h(
    "div",
    { class: classes.filter(Boolean).join(" ") },
    title,
    typeof inside === "string" ? contents(scene, { name, inside, facts, offered }) : h("span", { class: "quiet" }, "?"),
  );
}

function contents(scene, { name, inside, facts, offered }) {
  const things = namesIn(inside);
  if (!things.length) return h("span", { class: "quiet" }, "nothing");
  return things.map((thing) => {
    const id = idOf(offered, [`take ${thing} from ${name}`, `use ${thing}`]);
    const label = withStates(facts, thing);
    return id === null ? h("span", {}, label) : button(scene, id, label, "house-thing");
  });
}

function button(scene, id, label, classes) {
  return h("button", { type: "button", class: classes, onclick: () => scene.pick(id) }, label);
}

// The id of the first of some commands that is offered, or null; in other words than the usual there is none.
function idOf(offered, commands) {
  for (const command of commands) {
    const found = offered.find(([, word]) => word === command);
    if (found) return found[0];
  }
  return null;
}

function withStates(facts, thing) {
  const states = (facts.states ?? []).filter(([name]) => name === thing).map(([, state]) => state);
  return states.length ? `${thing} (${states.join(", ")})` : thing;
}

function namesIn(text) {
  return typeof text === "string" && text ? text.split(", ") : [];
}
