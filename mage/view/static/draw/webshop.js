// WebShop: the page of the shop. Where a person plays, products and options in it can be clicked.
import { h } from "../dom.js";

export function drawWebShop(scene) {
  const facts = scene.result ?? scene.facts;
  if (typeof facts?.asked !== "string") return null;
  const parts = [
    h("div", { class: "asked" }, facts.asked),
    Array.isArray(facts.results) ? results(scene, facts) : null,
    typeof facts.item === "string" ? item(scene, facts) : null,
    typeof facts.text === "string" ? h("div", {}, facts.text) : null,
    h("div", { class: "quiet" }, `turns left: ${facts.turns_left}`),
  ];
  return h("div", { class: "drawing shop", vars: { "--w": "560px" } }, parts);
}

function results(scene, facts) {
  const rows = facts.results.map(([number, title, price]) => {
    return h("tr", clickable(scene, number), h("td", {}, number), h("td", {}, title), h("td", {}, `$${price}`));
  });
  const head = `page ${facts.number} of ${facts.num_pages} for: ${facts.query}`;
  return h("div", {}, h("div", { class: "quiet" }, head), h("table", {}, h("tbody", {}, rows)));
}

function item(scene, facts) {
  const groups = (facts.options ?? []).map(([name, ...values], index) => {
    const shown = values.map((value) => {
      const isChosen = facts.chosen?.[index] === value || isTaken(scene, value);
      return h("span", clickable(scene, value, isChosen ? "value chosen" : "value"), value);
    });
    return h("div", {}, `${name}: `, shown);
  });
  return h("div", {}, h("strong", {}, `${facts.item} ${facts.title}`), ` $${facts.price}`, groups);
}

// The properties of what a click on `what` plays, or takes at this moment.
function clickable(scene, what, classes = "") {
  const found = scene.pick ? scene.offered.find(([, action]) => argument(action) === what) : null;
  const tone = isTaken(scene, what) ? "chosen" : "";
  if (!found) return { class: `${classes} ${tone}` };
  return { class: `${classes} free`, onclick: () => scene.pick(found[0]) };
}

function isTaken(scene, what) {
  return !scene.result && scene.move ? argument(scene.move.action ?? "") === what : false;
}

// What stands in the brackets of an action: B0412 of click[B0412].
function argument(action) {
  return /\[(.*)\]\s*$/.exec(action)?.[1] ?? action;
}
