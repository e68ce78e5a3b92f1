// Keys: each page names what its keys do, and `?` lists them.
import { h, show } from "./dom.js";

const ALWAYS = [
  { key: "?", does: "show these keys" },
  { key: "Escape", does: "close this" },
];
let current = [];

// Use these keys until another page sets its own: [{key: "ArrowRight", shown: "→", does: "next", run: f}].
export function setKeys(keys) {
  current = keys;
}

// Listen from now on.
export function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (event.key === "?") return openHelp();
    const entry = current.find((each) => each.key === event.key);
    if (!entry || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    entry.run();
  });
}

// Show what the keys of this page do.
export function openHelp() {
  const rows = [...current, ...ALWAYS].map((entry) => {
    return h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, entry.shown ?? entry.key)), h("td", {}, entry.does));
  });
  const dialog = h("dialog", { class: "keys", "aria-label": "Keys of this page" });
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  show(dialog, h("h2", {}, "Keys of this page"), h("table", {}, h("tbody", {}, rows)), close);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function isTyping(target) {
  if (target.isContentEditable || ["TEXTAREA", "SELECT"].includes(target.tagName)) return true;
  return target.tagName === "INPUT" && !["checkbox", "radio", "button"].includes(target.type);
}
