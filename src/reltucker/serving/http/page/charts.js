/** Charts by Vega, in the colours of the page, each with a table of its numbers. */

import { help, make, number, shorten, table } from "./dom.js";
import { MODELS } from "./models.js";

const LOOKS = {
  light: { ink: "#1d2329", grid: "#dfe3e8", place: 0 },
  dark: { ink: "#e8ebee", grid: "#3a424b", place: 1 },
};
const QUIET = ["#6b7480", "#9aa2ad"]; // of what belongs to no model
const ROWS = 300; // of a table under a chart

let embed = null;

/** Vega, when the first chart needs it. Its expressions are interpreted, for the page allows no eval. */
async function vega() {
  embed ??= import("./vega.js").then(() => window.vegaEmbed, () => {
    embed = null;
    return null;
  });
  return embed;
}

/** In the colour of a model; where there are several, each has its own. */
function config(models) {
  const look = LOOKS[document.documentElement.dataset.theme] ?? LOOKS.light;
  const marks = models.map((model) => (MODELS[model] ?? QUIET)[look.place]);
  const text = { labelColor: look.ink, titleColor: look.ink, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" };
  return {
    aria: false, // the figure has a name and a table
    background: null,
    font: "system-ui, sans-serif",
    view: { stroke: null },
    axis: { ...text, gridColor: look.grid, domainColor: look.grid, tickColor: look.grid, labelLimit: 180 },
    legend: { ...text, symbolBaseFillColor: look.ink, symbolBaseStrokeColor: look.ink, orient: "bottom", columns: 2, labelLimit: 160 },
    header: text,
    text: { color: look.ink },
    range: { category: marks },
    mark: { color: marks.length === 1 ? marks[0] : QUIET[look.place], invalid: null },
    rule: { color: look.ink },
  };
}

/** Values beside the pointer: text, whatever a name holds. */
function tip(handler, event, item, value) {
  let box = document.getElementById("tip");
  if (!value) return box?.remove();
  if (!box) document.body.append(box = make("div", { id: "tip", "aria-hidden": "true" }));
  box.replaceChildren(...Object.entries(value).map(([key, text]) =>
    make("p", { dir: "auto" }, `${key}: ${shorten(String(text), 80)}`)));
  box.style.left = `${Math.min(event.clientX + 12, innerWidth - box.offsetWidth - 8)}px`;
  box.style.top = `${event.clientY + 14}px`;
  return undefined;
}

/**
 * A figure: title, a sentence that says how to read it, the chart, and the table of its numbers.
 * `columns` are [title, key] pairs of the rows. `models` are those that it is about, in the order of
 * a scale. `onpick` is told the row of a mark that was clicked.
 */
export function figure({ title, text, spec, rows, columns, models, signal, onpick }) {
  const place = make("div", { class: "chart", role: "img", "aria-label": `${title}; the table below has its numbers` });
  const cell = (key) => (row) => typeof row[key] === "string" ? make("bdi", { dir: "auto" }, shorten(row[key], 60)) : number(row[key]);
  const numbers = make("details", {}, make("summary", {}, "Show as a table"));
  numbers.addEventListener("toggle", () => {
    const shown = columns.map(([head, key]) => [head, cell(key), typeof rows[0][key] === "string" ? null : "number"]);
    numbers.append(table(title, shown, rows.slice(0, ROWS)));
    if (rows.length > ROWS) numbers.append(make("p", { class: "quiet" }, `The first ${ROWS} of ${number(rows.length)} rows.`));
  }, { once: true });
  let view = null;
  const paint = async () => {
    const drawn = await vega();
    if (signal.aborted) return;
    if (!drawn) {
      place.replaceChildren(make("p", { class: "quiet" }, "The charts cannot be loaded now; the table has the same numbers."));
      numbers.open = true;
      return;
    }
    view?.finalize();
    const whole = { width: "container", autosize: { type: "fit-x", contains: "padding" }, ...spec, config: config(models), data: { values: rows } };
    view = await drawn(place, whole, { ast: true, actions: false, defaultStyle: false, renderer: "canvas", tooltip: tip });
    if (onpick) view.view.addEventListener("click", (event, item) => item?.datum?.name && onpick(item.datum));
  };
  document.addEventListener("themechange", paint, { signal });
  signal.addEventListener("abort", () => { view?.finalize(); document.getElementById("tip")?.remove(); });
  // Vega measures the figure, so it must stand on the page before.
  requestAnimationFrame(paint);
  return make("figure", {}, make("figcaption", {}, make("h3", {}, title), help(text)), place, numbers);
}
