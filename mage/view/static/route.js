// Addresses within the page: `#/runs/ID/trials/3?at=2.1` names any moment, and can be shared.

// A hash in parts: {parts: ["runs", "ID", "trials", "3"], query: {at: "2.1"}}.
export function parseHash(hash) {
  const [path, search = ""] = hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: Object.fromEntries(new URLSearchParams(search)) };
}

// The hash of parts and a query, without what is null or "".
export function toHash(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(given).toString();
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}${search ? `?${search}` : ""}`;
}

// Change the query of the address without leaving the page or adding to the history.
export function replaceQuery(query) {
  const now = parseHash(location.hash);
  history.replaceState(null, "", toHash(now.parts, { ...now.query, ...query }));
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
