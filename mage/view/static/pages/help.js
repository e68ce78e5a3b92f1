// Help: the documentation that comes with mage, and the keys.
import { getText } from "../data.js";
import { h, show } from "../dom.js";
import { openHelp } from "../keys.js";

const FIRST = ["viewer", "quickstart", "method", "evaluation"];

export async function helpPage({ root, parts, query }) {
  const name = parts[1] ?? FIRST[0];
  const contents = [...(await pageAt("/help")).querySelectorAll("main a")].map((link) => [
    nameIn(link.getAttribute("href")),
    link.textContent,
  ]);
  const rank = ([each]) => (FIRST.indexOf(each) + FIRST.length + 1) % (FIRST.length + 1);
  const links = contents
    .sort((a, b) => rank(a) - rank(b))
    .map(([each, title]) =>
      h("li", {}, h("a", { href: `#/help/${each}`, "aria-current": each === name ? "page" : null }, title)),
    );
  const keys = h("button", { type: "button", onclick: openHelp }, "Keys of a page: ?");
  const text = h("article", { class: "help" });
  const page = await pageAt(`/help/${encodeURIComponent(name)}`);
  show(text, ...page.querySelector("main").childNodes);
  for (const link of text.querySelectorAll("a[href]")) mend(link, text);
  show(
    root,
    h(
      "div",
      { class: "columns help-columns" },
      h("nav", { "aria-label": "Help" }, h("ul", { class: "plain" }, links), keys),
      text,
    ),
  );
  if (query.at) goTo(text, query.at);
  return {};
}

// Our own documentation, rendered by the server: the only markup that a page takes over.
async function pageAt(path) {
  return new DOMParser().parseFromString(await getText(path), "text/html");
}

function nameIn(address) {
  return /^(?:\/help\/)?([\w-]+)(?:\.md)?(?:#.*)?$/.exec(address)?.[1] ?? null;
}

// Links between pages of the help stay within this page.
function mend(link, text) {
  const address = link.getAttribute("href");
  const [, anchor] = address.split("#");
  if (address.startsWith("#")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      goTo(text, anchor);
    });
  } else if (nameIn(address)) {
    link.setAttribute("href", `#/help/${nameIn(address)}${anchor ? `?at=${anchor}` : ""}`);
  }
}

function goTo(text, anchor) {
  [...text.querySelectorAll("[id]")].find((each) => each.id === anchor)?.scrollIntoView();
}
