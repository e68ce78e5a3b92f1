// Elements from plain values. Every text goes in as a text node, so nothing that a model wrote is ever markup.

const SVG = "http://www.w3.org/2000/svg";

// An HTML element: `h("p", {class: "note", onclick: f, dataset: {n: 1}, vars: {"--heat": "40%"}}, "text", child)`.
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// The same for SVG.
export function s(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

// Put these children in place of whatever is there.
export function show(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

// The same, where the keyboard may be on one of the children: it then is on the one that comes to stand there.
export function renew(element, ...children) {
  const stops = () => [...element.querySelectorAll("a, button, input, select, textarea")];
  const at = stops().indexOf(document.activeElement);
  show(element, ...children);
  if (at >= 0) stops()[at]?.focus();
  return element;
}

// Characters that would not be seen, or would change the direction of what follows, as escapes: "\u202e" for one.
export function visible(text) {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (char) => {
      return `\\u${char.codePointAt(0).toString(16).padStart(4, "0")}`;
    },
  );
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) set(element, name, value);
  element.append(...nodes(children));
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined) return;
  if (name.startsWith("aria-")) return element.setAttribute(name, String(value));
  if (value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "dataset") Object.assign(element.dataset, value);
  else if (name === "vars") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
  else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
  else element.setAttribute(name, value === true ? "" : String(value));
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map(asNode);
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(visible(String(child)));
}
