// Small pieces of the page. Names are text, never markup.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value == null) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

export function shape(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text != null) made.textContent = text;
  return made;
}

const LONG = 200;

// A name as it is shown: shortened where it is very long, in the direction of its own script.
export function named(text, tag = "span") {
  const shown = text.length > LONG ? `${text.slice(0, LONG)}…` : text;
  return element(tag, { class: "name", dir: "auto", title: shown === text ? null : shown }, shown || "(no name)");
}

export function tell(text) {
  document.getElementById("status").textContent = text;
}

export function problem(error) {
  return element("p", { class: "problem", role: "alert" }, error.message);
}

export function table(caption, columns, rows) {
  const head = columns.map(([title, , kind]) =>
    element("th", { scope: "col", class: kind }, title),
  );
  const body = rows.map((row) =>
    element("tr", {}, ...columns.map(([, cell, kind]) => element("td", { class: kind }, cell(row)))),
  );
  return element(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    element(
      "table",
      {},
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...body),
    ),
  );
}

export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(1)} %`;
}

// A probability with its bar where there is one, the score otherwise.
export function certainty(row) {
  if (row.probability == null) return element("span", {}, row.score.toFixed(3));
  const text = percent(row.probability);
  const bar = element("meter", { min: 0, max: 1, value: row.probability, "aria-hidden": "true" });
  return element("span", {}, bar, " ", text);
}
