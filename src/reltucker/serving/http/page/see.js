// See: how well the model does, and what it has learned.

import { get } from "./api.js";
import { about, next } from "./ask.js";
import { chart } from "./charts.js";
import { element, named, percent, problem, table, tell } from "./dom.js";
import { typeahead } from "./typeahead.js";

export async function see(main, run, state, go, served) {
  const parts = [
    ["How well it does", quality],
    ["While it learned", curves],
    ["How far probabilities hold", reliability],
    ["The map of entities", (r) => map(r, "entity", go)],
    ["The map of relations", (r) => map(r, "relation", go)],
    ["How a relation mixes coordinates", (r) => mixing(r, state, go)],
    ["Where the core is dense", density],
  ];
  const places = parts.map(([title]) => element("section", { "aria-busy": "true" }, element("h3", {}, title), element("p", { class: "quiet" }, "Loading …")));
  main.replaceChildren(element("h2", {}, "See"), models(run, served), ...places);
  await Promise.all(
    parts.map(async ([title, make], number) => {
      let made;
      try {
        made = await make(run);
      } catch (error) {
        if (error.status === 401) throw error;
        made = [problem(error)];
      }
      places[number].replaceChildren(element("h3", {}, title), ...made);
      places[number].removeAttribute("aria-busy");
    }),
  );
  tell("");
}

const mrr = (row) => row.figures.seen?.mrr;

function models(run, served) {
  const shown = table("The models that are served", [
    ["Name", (row) => (row === run ? element("strong", {}, named(row.name)) : named(row.name))],
    ["Model", (row) => row.model],
    ["Graph", (row) => named(row.graph)],
    ["Parameters", (row) => row.effective_parameters.toLocaleString("en"), "number"],
    ["MRR", (row) => mrr(row)?.toFixed(3) ?? "–", "number"],
  ], served);
  const values = served.filter(mrr).map((row) => ({ name: row.name, model: row.model, parameters: row.effective_parameters, mrr: mrr(row) }));
  if (values.length < 2) return shown;
  const skyline = chart("MRR on validation triples by effective parameters", {
    data: { values },
    mark: { type: "point", filled: true, size: 90 },
    encoding: {
      x: { field: "parameters", type: "quantitative", scale: { type: "log" } },
      y: { field: "mrr", type: "quantitative", title: "MRR", scale: { zero: false } },
      shape: { field: "model" },
      tooltip: ["name", "model", "parameters", "mrr"].map((field) => ({ field })),
    },
  });
  return element("div", {}, shown, skyline);
}

async function quality(run) {
  const { split, triples, metrics, relations } = await get(run.name, "results");
  if (!triples) return [element("p", { class: "quiet" }, "There are no held-out triples.")];
  const all = metrics.seen;
  const sentence = `Of ${all.queries.toLocaleString("en")} questions of the ${split} triples, the right answer is first in ${percent(all["hits@1"])} and among ten in ${percent(all["hits@10"])}; MRR ${all.mrr.toFixed(3)}.`;
  return [
    element("p", {}, sentence),
    table("By relation, the most frequent first", [
      ["Relation", (row) => next(run, { relation: row.relation }, row.label)],
      ["Questions", (row) => row.seen.queries.toLocaleString("en"), "number"],
      ["MRR", (row) => row.seen.mrr?.toFixed(3) ?? "–", "number"],
      ["First", (row) => (row.seen.queries ? percent(row.seen["hits@1"]) : "–"), "number"],
      ["Among ten", (row) => (row.seen.queries ? percent(row.seen["hits@10"]) : "–"), "number"],
    ], relations.slice(0, 30)),
  ];
}

async function curves(run) {
  const { epochs } = await get(run.name, "epochs");
  if (!epochs.length) return [element("p", { class: "quiet" }, "Nothing was noted.")];
  const line = (title, rows) =>
    chart(title, {
      data: { values: rows },
      mark: { type: "line", point: rows.length < 40 },
      encoding: {
        x: { field: "epoch", type: "quantitative" },
        y: { field: "value", type: "quantitative", title, scale: { zero: false } },
        tooltip: [{ field: "epoch" }, { field: "value", format: ".4f" }],
      },
    });
  const judged = epochs.filter((row) => row.valid).map((row) => ({ epoch: row.epoch, value: row.valid.seen.mrr }));
  const losses = epochs.map((row) => ({ epoch: row.epoch, value: row.loss }));
  return [element("div", { class: "columns" }, ...(judged.length ? [line("MRR on validation triples", judged)] : []), line("Loss", losses))];
}

async function reliability(run) {
  if (!run.calibrated) return [element("p", { class: "quiet" }, "This model has no probabilities; `reltucker calibrate` makes them.")];
  const found = await get(run.name, "calibration");
  const values = found.reliability.bins.filter((bin) => bin.count).map((bin) => ({ said: bin.mean_probability, came: bin.share_true, count: bin.count }));
  const axis = (field, title) => ({ field, type: "quantitative", title, scale: { domain: [0, 1] }, axis: { format: "%" } });
  return [
    chart(`Probabilities that were said, and how often they came true (mean distance ${percent(found.reliability.expected_calibration_error)})`, {
      layer: [
        { data: { values: [{ said: 0, came: 0 }, { said: 1, came: 1 }] }, mark: { type: "line", strokeDash: [4, 4], opacity: 0.6 }, encoding: { x: axis("said", "said"), y: axis("came", "came true") } },
        { data: { values }, mark: { type: "line", point: true }, encoding: { x: axis("said", "said"), y: axis("came", "came true"), tooltip: [{ field: "said", format: ".1%" }, { field: "came", format: ".1%" }, { field: "count" }] } },
      ],
    }),
  ];
}

async function map(run, kind, go) {
  const values = await get(run.name, "map", { kind });
  const short = values.map((row) => ({ ...row, label: row.label.slice(0, 80) }));
  const what = kind === "entity" ? "entities" : "relations";
  const made = chart(`The ${values.length.toLocaleString("en")} most frequent ${what} by the first two principal components of their embeddings`, {
    height: 420,
    data: { values: short },
    params: [{ name: "zoom", select: "interval", bind: "scales" }],
    mark: { type: "point", filled: true, opacity: 0.6, cursor: "pointer" },
    encoding: {
      x: { field: "x", type: "quantitative", title: null, axis: { labels: false, ticks: false } },
      y: { field: "y", type: "quantitative", title: null, axis: { labels: false, ticks: false } },
      size: { field: "count", type: "quantitative", title: "triples", legend: null },
      tooltip: [{ field: "label" }, { field: "count", format: "," }],
    },
  });
  const listen = (view) =>
    view?.addEventListener("click", (event, item) => {
      if (!item?.datum?.name) return;
      const { name } = item.datum;
      go({ run: run.name, ...(kind === "entity" ? { view: "about", name } : { view: "ask", relation: name }) });
    });
  made.drawn.then(listen, () => {});
  const first = values.slice(0, 10).map((row) => element("li", {}, kind === "entity" ? about(run, row.name, row.label) : next(run, { relation: row.name }, row.label)));
  return [made, element("details", {}, element("summary", {}, `The most frequent ${what}`), element("ul", {}, ...first))];
}

async function mixing(run, state, go) {
  const [most] = await get(run.name, "names", { kind: "relation", limit: 1 });
  const field = typeahead({ title: "Relation", run: run.name, kind: "relation", value: state.mixing ?? most.name, placeholder: "" });
  const form = element("form", { class: "question single" }, field.field, element("div", { class: "options" }, element("button", { class: "main", type: "submit" }, "Show")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go({ run: run.name, view: "see", mixing: field.input.value });
  });
  let shown;
  try {
    const found = await get(run.name, "mixing", { relation: state.mixing ?? most.name });
    const values = found.values.flatMap((row, i) => row.map((value, j) => ({ i: i * found.step, j: j * found.step, value })));
    const strongest = Math.max(...values.map(({ value }) => Math.abs(value)), 1e-12);
    const axis = (name, title) => ({ field: name, type: "ordinal", title, axis: { labelOverlap: true, ticks: false, labelAngle: 0 } });
    shown = chart(`M of ${found.label.slice(0, 80)}: coordinates of subjects by those of objects`, {
      height: 420,
      data: { values },
      mark: "rect",
      encoding: {
        x: axis("j", "object coordinate"),
        y: axis("i", "subject coordinate"),
        color: { field: "value", type: "quantitative", title: "m", scale: { scheme: "blueorange", domain: [-strongest, strongest] } },
        tooltip: [{ field: "i" }, { field: "j" }, { field: "value", format: ".3g" }],
      },
    });
  } catch (error) {
    if (error.status === 401) throw error;
    shown = problem(error);
  }
  return [form, shown];
}

async function density(run) {
  const { density: whole, slices } = await get(run.name, "core");
  const values = slices.map((share, slice) => ({ slice, share }));
  return [
    chart(`The share of entries that are not zero, by slice of the core; ${percent(whole)} of all`, {
      data: { values },
      mark: "bar",
      encoding: {
        x: { field: "slice", type: "ordinal", axis: { labelOverlap: true, labelAngle: 0 } },
        y: { field: "share", type: "quantitative", axis: { format: "%" } },
        tooltip: [{ field: "slice" }, { field: "share", format: ".2%" }],
      },
    }),
  ];
}
