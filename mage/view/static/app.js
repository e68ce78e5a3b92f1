// The frame around the pages: the address chooses the page, the header says where one is.
import { DataError, exportMade, exportTitle, get, isExport, runPath } from "./data.js";
import { h, show } from "./dom.js";
import { listen, openHelp, setKeys } from "./keys.js";
import { parseHash, toHash } from "./route.js";
import { themeButton } from "./theme.js";
import { evaluationPage } from "./pages/evaluation.js";
import { helpPage } from "./pages/help.js";
import { leaguePage } from "./pages/league.js";
import { pairsPage } from "./pages/pairs.js";
import { playPage } from "./pages/play.js";
import { runPage } from "./pages/run.js";
import { runsPage } from "./pages/runs.js";
import { trialPage } from "./pages/trial.js";
import { trialsPage } from "./pages/trials.js";

// A page is an async function of {root, run, at, query} that fills `root` and returns {leave, keys, changed}:
// what to do when it is left, its keys, and what to do when only the query of the address changes.
const ROUTES = [
  { path: ["runs"], page: runsPage, title: "Runs" },
  { path: ["runs", "*"], page: runPage, title: "Overview", tab: "overview" },
  { path: ["runs", "*", "trials"], page: trialsPage, title: "Trials", tab: "trials" },
  { path: ["runs", "*", "trials", "*"], page: trialPage, title: "Trial", tab: "trials" },
  { path: ["runs", "*", "pairs"], page: pairsPage, title: "Before and after", tab: "pairs" },
  { path: ["runs", "*", "league"], page: leaguePage, title: "League", tab: "league" },
  { path: ["runs", "*", "evaluations"], page: evaluationPage, title: "Evaluation", tab: "evaluations" },
  { path: ["runs", "*", "evaluations", "*"], page: evaluationPage, title: "Evaluation", tab: "evaluations" },
  { path: ["play"], page: playPage, title: "Play" },
  { path: ["play", "*"], page: playPage, title: "Play" },
  { path: ["help"], page: helpPage, title: "Help" },
  { path: ["help", "*"], page: helpPage, title: "Help" },
];
const TABS = [
  { id: "overview", name: "Overview", tail: [], isFor: () => true },
  { id: "trials", name: "Trials", tail: ["trials"], isFor: (run) => run.trials > 0 },
  { id: "pairs", name: "Before and after", tail: ["pairs"], isFor: (run) => run.kind === "train" },
  { id: "league", name: "League", tail: ["league"], isFor: (run) => run.league },
  {
    id: "evaluations",
    name: "Evaluation",
    tail: ["evaluations"],
    isFor: (run) => run.kind === "train" || run.evaluations.length > 0,
  },
];
const NOTHING = { leave: () => {}, keys: [], changed: null };

const top = document.getElementById("top");
const main = document.getElementById("main");
let shown = { path: null, page: NOTHING };
const known = new Map();
let visits = 0;

async function open() {
  const { parts, query } = parseHash(location.hash);
  if (!parts.length) return location.replace(await home());
  const path = parts.join("/");
  if (path === shown.path && shown.page.changed) return shown.page.changed(query);
  const visit = (visits += 1);
  shown.page.leave();
  shown = { path, page: NOTHING };
  setKeys([]);
  const route = ROUTES.find((each) => matches(each.path, parts));
  const run = parts[0] === "runs" ? (parts[1] ?? null) : null;
  frame(route, run, parts);
  const root = h("div", { class: "page" }, h("p", { class: "quiet" }, "Loading …"));
  main.setAttribute("aria-busy", "true");
  show(main, root);
  try {
    if (!route) throw new DataError(`there is no page called ${path}.`);
    const page = { ...NOTHING, ...(await route.page({ root, run, at: parts[parts.length - 1], parts, query })) };
    if (visit !== visits) return page.leave();
    shown = { path, page };
    setKeys(page.keys);
  } catch (error) {
    if (visit === visits) fail(root, error);
  }
  if (visit === visits) main.setAttribute("aria-busy", "false");
}

function matches(path, parts) {
  return path.length === parts.length && path.every((each, index) => each === "*" || each === parts[index]);
}

async function home() {
  if (!isExport) return "#/runs";
  const runs = await get("/api/runs");
  return runs.length === 1 ? toHash(["runs", runs[0].id]) : "#/runs";
}

function frame(route, run, parts) {
  document.title = `${route?.title ?? "Not found"} · mage`;
  const nav = h("nav", { "aria-label": "Main" }, link("#/runs", "Runs", parts[0] === "runs" && !run));
  if (!isExport) nav.append(link("#/play", "Play", parts[0] === "play"), link("#/help", "Help", parts[0] === "help"));
  const keys = h("button", { type: "button", class: "quiet", id: "keys", onclick: openHelp }, "Keys: ?");
  const bar = h(
    "div",
    { class: "bar" },
    h("a", { class: "brand", href: "#/" }, "mage"),
    nav,
    h("span", { class: "grow" }),
    keys,
    theme,
  );
  const below = run && h("nav", { class: "tabs", "aria-label": "This run" });
  show(top, bar, below);
  if (run) fillTabs(below, run, route);
}

function link(target, name, isHere) {
  return h("a", { href: target, "aria-current": isHere ? "page" : null }, name);
}

// Ids are made by the server and say nothing: the header has the name of the run, and the pages that it has.
async function fillTabs(below, run, route) {
  const isSettled = known.has(run) && known.get(run)?.status !== "running"; // one that runs may get more pages
  if (!isSettled) known.set(run, await get(runPath(run)).catch(() => null));
  const about = known.get(run);
  if (!about) return below.remove();
  const tabs = TABS.filter((tab) => tab.isFor(about) || tab.id === route?.tab);
  show(
    below,
    h("strong", {}, about.name),
    tabs.map((tab) => link(toHash(["runs", run, ...tab.tail]), tab.name, route?.tab === tab.id)),
  );
  if (below.isConnected) document.title = `${route?.title ?? "Not found"} · ${about.name} · mage`;
}

function fail(root, error) {
  const known = error instanceof DataError;
  if (!known) console.error(error);
  const text = known ? error.message : `This page broke: ${error.message}`;
  show(
    root,
    h(
      "div",
      { class: "card problem", role: "alert" },
      h("h1", {}, "This cannot be shown"),
      h("p", {}, text),
      h("p", {}, h("a", { href: "#/runs" }, "All runs")),
    ),
  );
}

const theme = themeButton();
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
if (isExport) show(document.getElementById("foot"), `${exportTitle} · exported ${exportMade}`);
listen();
addEventListener("hashchange", open);
open();
