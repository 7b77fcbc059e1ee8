/** Elements made of text. Names may hold anything, so nothing on this page parses HTML. */

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** An HTML element; `onclick` and the like are listeners, null attributes and children are left out. */
export const make = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);

/** An SVG element. */
export const draw = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** At most `limit` characters, with the middle left out. */
export function shorten(text, limit = 80) {
  if (text.length <= limit) return text;
  const characters = Array.from(text.slice(0, limit * 2));
  const tail = Array.from(text.slice(-limit));
  const half = Math.floor((limit - 1) / 2);
  return characters.slice(0, half).join("") + "…" + tail.slice(-half).join("");
}

/** A name in whichever direction its script is written, apart from the text around it. */
export function named(text, limit = 80) {
  const shown = text.trim() === "" ? `(a name of ${text.length} blanks)` : shorten(text, limit);
  return make("bdi", { dir: "auto", title: shown === text ? null : shorten(text, 600) }, shown);
}

/** A label, with the name behind it where they differ. */
export function labelled(label, name) {
  if (!name || label === name) return named(label);
  return [named(label), " ", make("span", { class: "id" }, named(name, 40))];
}

export const link = (href, ...children) => make("a", { href }, ...children);

export const help = (...children) => make("p", { class: "help" }, ...children);

/** Tell screen readers, without moving the focus. */
export function announce(text) {
  document.getElementById("status").textContent = text;
}

const whole = new Intl.NumberFormat("en");
const decimal = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** A number for people: thousands apart, at most three digits that matter. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  return Number.isInteger(value) ? whole.format(value) : decimal.format(value);
}

/** "1 fact", "2 facts". */
export const count = (n, one, many = `${one}s`) => `${whole.format(n)} ${n === 1 ? one : many}`;

/** A share in percent that claims neither 0 nor 100 where it is not. */
export function percent(share) {
  if (share > 0.999 && share < 1) return "> 99.9 %";
  if (share < 0.001 && share > 0) return "< 0.1 %";
  return `${(100 * share).toFixed(1)} %`;
}

/** A probability with a bar. */
export function probability(value) {
  if (value === null || value === undefined) return "–";
  const bar = make("span", { class: "bar", "aria-hidden": "true" }, make("span", {}));
  bar.firstChild.style.width = `${100 * value}%`;
  return make("span", { class: "probability" }, bar, percent(value));
}

/** Known or new, in words. */
export const badge = (isKnown) =>
  make("span", { class: isKnown ? "badge" : "badge new" }, isKnown ? "known" : "new");

/**
 * A table: columns are [title, cell of a row, class?], and the first is the heading of its row. On
 * narrow screens the rows are blocks, whose cells show the titles.
 */
export function table(caption, columns, rows) {
  const cells = (row, place) =>
    columns.map(([title, cell, kind], column) => make(column ? "td" : "th",
      { class: kind, scope: column ? null : "row", "data-head": title }, cell(row, place)));
  const heads = columns.map(([title, , kind]) => make("th", { scope: "col", class: kind }, title));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {},
      make("caption", { class: "unseen" }, caption),
      make("thead", {}, make("tr", {}, heads)),
      make("tbody", {}, rows.map((row, place) => make("tr", {}, cells(row, place))))));
}
