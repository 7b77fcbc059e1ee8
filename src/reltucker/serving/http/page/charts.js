// Charts by Vega-Lite, which the server has with it; no code is made of text (`ast`), as the
// content security policy demands.

import { element } from "./dom.js";

let library;

function vega() {
  library ??= new Promise((resolve, reject) => {
    const script = element("script", { src: "vega.js", onload: () => resolve(window.vegaEmbed), onerror: () => reject(new Error("The library for charts cannot be loaded.")) });
    document.head.append(script);
  });
  return library;
}

function look() {
  const colours = getComputedStyle(document.documentElement);
  const [ink, quiet, line, accent] = ["--ink", "--quiet", "--line", "--accent"].map((name) => colours.getPropertyValue(name).trim());
  const text = { labelColor: quiet, titleColor: ink, labelFontSize: 12, titleFontSize: 13, titleFontWeight: "normal" };
  return {
    background: "transparent",
    font: "system-ui, sans-serif",
    view: { stroke: null },
    mark: { color: accent },
    axis: { ...text, gridColor: line, domainColor: quiet, tickColor: quiet },
    legend: text,
  };
}

// A figure with a chart; `table` below it says the same in text.
export function chart(caption, spec) {
  const place = element("div", { class: "chart" });
  const made = element("figure", { role: "img", "aria-label": caption }, place, element("figcaption", {}, caption));
  const draw = async () => {
    const embed = await vega();
    const options = { ast: true, actions: false, renderer: "canvas", defaultStyle: false, tooltip: { disableDefaultStyle: true }, config: look() };
    const { view } = await embed(place, { width: "container", height: 240, ...spec }, options);
    return view;
  };
  made.drawn = draw();
  made.drawn.catch((error) => place.replaceChildren(error.message));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return made;
}
