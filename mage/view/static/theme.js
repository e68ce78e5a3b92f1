// Dark or light: as the system has it, until one is chosen.
import { h } from "./dom.js";

const NAME = "mage-theme";
const ORDER = ["system", "light", "dark"];

// The button that goes through the choices; the choice is remembered where the browser allows it.
export function themeButton() {
  let choice = remembered();
  const button = h("button", { type: "button", class: "quiet", onclick: next });
  function apply() {
    if (choice === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    button.textContent = `Theme: ${choice}`;
  }
  function next() {
    choice = ORDER[(ORDER.indexOf(choice) + 1) % ORDER.length];
    remember(choice);
    apply();
  }
  apply();
  return button;
}

function remembered() {
  try {
    const found = localStorage.getItem(NAME);
    return ORDER.includes(found) ? found : "system";
  } catch {
    return "system";
  }
}

function remember(choice) {
  try {
    localStorage.setItem(NAME, choice);
  } catch {
    // A page from disk may have no storage; the choice then lasts as long as the page.
  }
}
