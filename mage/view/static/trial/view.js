// A trial that one can walk through: the stage, the transcript beside it, and the step from moment to moment.
import { draw } from "../draw/registry.js";
import { h, show } from "../dom.js";
import { largestAdvantage, momentNamed, momentsOf, sceneOf } from "./model.js";
import { stage } from "./stage.js";
import { transcript } from "./transcript.js";

// settings: {at, seen: "all" | "agent", colour, layout: "rows" | "columns"}; `moved(name)` is told of every step.
export function trialView(trial, settings, moved) {
  const scale = largestAdvantage(trial);
  const onStage = h("div", { class: "stage" });
  const list = h("div", { class: "beside" });
  const slider = h("input", {
    type: "range",
    min: 0,
    "aria-label": "moment",
    oninput: () => goTo(moments[Number(slider.value)]),
  });
  const place = h("span", { class: "place", "aria-live": "polite" });
  const back = h("button", { type: "button", "aria-label": "previous moment", onclick: () => step(-1) }, "←");
  const on = h("button", { type: "button", "aria-label": "next moment", onclick: () => step(1) }, "→");
  const walk = h("div", { class: "walk" }, back, slider, on, place);
  const front = h("div", { class: "front" });
  const element = h("div", { class: "trial" });
  let now = { ...settings };
  let moments = [];
  let moment = null;

  function options() {
    return { seenBy: now.seen === "agent" ? trial.task.seat : null, colour: now.colour, scale, layout: now.layout };
  }

  function inColumns() {
    return now.layout === "columns";
  }

  // Show everything anew, with some settings changed.
  function set(changed) {
    now = { ...now, ...changed };
    const seenBy = options().seenBy;
    moments = momentsOf(trial).filter((each) => seenBy === null || each.kind !== "turn" || each.turn.seat === seenBy);
    element.classList.toggle("in-columns", inColumns());
    show(front, walk, inColumns() ? null : onStage);
    show(element, front, list, inColumns() ? h("div", { class: "card" }, onStage) : null);
    show(list, transcript(trial, moments, options(), goTo));
    slider.max = String(Math.max(0, moments.length - 1));
    const wanted = momentNamed(moments, now.at);
    if (wanted) put(wanted, false);
  }

  function put(next, isStep) {
    moment = next;
    now.at = next.name;
    const position = moments.indexOf(next);
    slider.value = String(position);
    slider.setAttribute("aria-valuetext", `moment ${next.name}`);
    show(place, `${position + 1} of ${moments.length}`);
    back.disabled = position === 0;
    on.disabled = position === moments.length - 1;
    show(onStage, stage(trial, next, options()));
    for (const small of list.querySelectorAll(".picture.small")) {
      if (Number(small.dataset.episode) === next.episode) show(small, draw(sceneOf(trial, next, options().seenBy)));
    }
    for (const item of list.querySelectorAll(".moment")) {
      const isNow = item.dataset.at === next.name;
      item.classList.toggle("now", isNow);
      item.querySelector(".pick").setAttribute("aria-current", isNow ? "step" : "false");
      // Only where the stage stays in sight beside the list.
      if (isNow && isStep && getComputedStyle(front).position === "sticky" && !inColumns())
        item.scrollIntoView({ block: "nearest" });
    }
  }

  function goTo(next) {
    put(next, true);
    moved(next.name);
  }

  function step(by) {
    const next = moments[moments.indexOf(moment) + by];
    if (next) goTo(next);
  }

  function leap(by) {
    const next = moments.find((each) => each.episode === moment.episode + by);
    if (next) goTo(next);
  }

  set({});
  return {
    element,
    set,
    step,
    leap,
    goTo: (name) => put(momentNamed(moments, name), true),
    first: () => goTo(moments[0]),
    last: () => goTo(moments.at(-1)),
    hasAdvantages: scale > 0,
    scale,
  };
}

// The keys that walk through a view.
export function walkKeys(view) {
  return [
    { key: "ArrowRight", shown: "→", does: "next moment", run: () => view.step(1) },
    { key: "ArrowLeft", shown: "←", does: "previous moment", run: () => view.step(-1) },
    { key: "]", does: "next episode", run: () => view.leap(1) },
    { key: "[", does: "previous episode", run: () => view.leap(-1) },
    { key: "Home", does: "first moment", run: () => view.first() },
    { key: "End", does: "last moment", run: () => view.last() },
  ];
}
