// Where the pages get their data: from the server, or from one object in a page that was exported.
//
// An exported page sets, before any module runs,
//   window.MAGE_DATA = {title, made, responses: {"/api/runs": [...], "/api/runs/ID": {...}, "/api/runs/ID/trials/3": …}}
// that is: by path, without its query, what the server answers there. Such a page can neither play nor watch.

const embedded = globalThis.MAGE_DATA ?? null;

export const isExport = embedded !== null;
export const exportTitle = embedded?.title ?? "";
export const exportMade = embedded?.made ?? "";

// An answer that is no data: `message` is one line for people.
export class DataError extends Error {}

// The JSON at a path such as `/api/runs`; query values that are null or "" are left out.
export async function get(path, query = {}) {
  if (isExport) return fromExport(path);
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(given).toString();
  return answer(await reach(search ? `${path}?${search}` : path, { headers: { Accept: "application/json" } }));
}

// What the server answers to a request to act; it carries the token that this start of the server gave to the page.
export async function post(path, body = {}) {
  if (isExport) throw new DataError("this page is a copy: it cannot play. Start `mage view`.");
  const headers = { "Content-Type": "application/json", "X-Mage-Token": pageToken() };
  return answer(await reach(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

// The text at a path, such as a page of the help.
export async function getText(path) {
  if (isExport) throw new DataError("this page is a copy: the help is not in it.");
  const response = await reach(path, {});
  if (!response.ok) await answer(response);
  return response.text();
}

// Call `changed` whenever a run ({run}), a play session ({session}) or any run ({}) changes; returns how to stop.
//
// A browser has few connections to one server, and each of these holds one: a hidden tab closes its own,
// and catches up when it is seen again. The first event says how things stand, so that nothing is lost between the
// fetch of a page and its listening; where `isShown` of an event is true, the page shows that already.
export function watch(what, changed, isShown = () => false) {
  if (isExport) return () => {};
  let source = null;
  const listen = () => {
    source = new EventSource(`/api/live?${new URLSearchParams(what)}`);
    source.addEventListener("change", (event) => isShown(JSON.parse(event.data)) || changed());
  };
  const look = () => {
    if (document.hidden) {
      source?.close();
      source = null;
    } else if (!source) {
      listen();
      changed();
    }
  };
  if (!document.hidden) listen();
  document.addEventListener("visibilitychange", look);
  return () => {
    document.removeEventListener("visibilitychange", look);
    source?.close();
  };
}

// The path of something in a run: `runPath("a b", "trials", 3)` is `/api/runs/a%20b/trials/3`.
export function runPath(run, ...parts) {
  return ["/api/runs", run, ...parts].map((part, index) => (index ? encodeURIComponent(part) : part)).join("/");
}

function fromExport(path) {
  if (!(path in embedded.responses)) throw new DataError("this page is a copy, and this part was not chosen for it.");
  return embedded.responses[path];
}

function pageToken() {
  return document.querySelector('meta[name="mage-token"]')?.content ?? "";
}

async function reach(url, options) {
  try {
    return await fetch(url, options);
  } catch {
    throw new DataError("the server does not answer. Is `mage view` still running?");
  }
}

async function answer(response) {
  const text = await response.text();
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new DataError(`the server's answer cannot be read (status ${response.status}).`);
  }
  if (!response.ok) throw new DataError(value?.error ?? `the server answers with status ${response.status}.`);
  return value;
}
