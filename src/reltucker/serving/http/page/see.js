/** See: what the model has learned, one picture at a time. */

import { go, to } from "./address.js";
import { api, load, of } from "./api.js";
import { figure } from "./charts.js";
import { NameField } from "./combobox.js";
import { count, help, labelled, link, make, named, number, percent, table } from "./dom.js";
import { heatMap } from "./matrix.js";
import { around } from "./neighbourhood.js";

export const title = "See";

const PARTS = {
  around: ["Around an entity", neighbourhood],
  entities: ["Entity map", (place, context) => map(place, context, "entity")],
  relations: ["Relation map", (place, context) => map(place, context, "relation")],
  mixing: ["Mixing matrices", mixing],
  core: ["Core", core],
  learning: ["Learning", learning],
  results: ["Results by relation", results],
  calibration: ["Calibration", calibration],
  runs: ["Models compared", compared],
};
const MRR = "The MRR (mean reciprocal rank) is 1 where the right answer always comes first, 0.5 where it comes second, and close to 0 where it is found far down.";

export async function show(root, context) {
  const { params } = context;
  const part = params.part in PARTS ? params.part : "around";
  const place = make("section", {});
  root.append(
    make("h1", {}, "See"),
    help("What the model has learned, as pictures. Every picture has a table of its numbers."),
    make("ul", { class: "chips" }, Object.entries(PARTS).map(([key, [name]]) =>
      make("li", {}, make("a", { href: to("see", { part: key }), "aria-current": key === part ? "true" : null }, name)))),
    place);
  await PARTS[part][1](place, context);
}

/** An axis of MRR ends at 1, unless all values are below 0.6. */
const mrrScale = (rows) => rows.some((row) => row.mrr > 0.6) ? { zero: false, domainMax: 1 } : { zero: false, padding: 25 };

/** The model of a run, which gives charts their colour, and the graph that it was trained on. */
function about({ run, runs }) {
  const { model, graph } = runs.find((one) => one.name === run) ?? runs[0];
  return { models: [model], graph };
}

const heading = (...text) => make("h2", { id: "results", tabindex: "-1" }, ...text);

/** A form with one field for a name; choosing one goes there. */
function chooser(run, kind, label, value, choose) {
  const field = new NameField(run, kind, label, { value, onchoose: choose });
  const submit = (event) => {
    event.preventDefault();
    choose(field.value);
  };
  return make("form", { class: "card", onsubmit: submit }, field.element,
    make("div", { class: "row" }, make("button", { class: "main" }, "Show")));
}

async function frequent(run, kind, signal) {
  const [first] = await api(of(run, "names", { kind, limit: 1 }), { signal });
  return first?.name;
}

async function neighbourhood(place, { run, params, signal }) {
  const picture = make("div", {});
  const name = params.name ?? await frequent(run, "entity", signal);
  if (signal.aborted) return;
  place.append(chooser(run, "entity", "Entity", name, (chosen) => go("see", { part: "around", name: chosen })), picture);
  await around(picture, run, name, signal);
}

async function map(place, { run, runs, signal }, kind) {
  const { models } = about({ run, runs });
  await load(place, "the map", signal, async () => {
    const rows = await api(of(run, "map", { kind }), { signal });
    const what = kind === "entity" ? "entities" : "relations";
    if (!rows.length) return [heading("Map"), make("p", {}, "There is nothing to draw.")];
    const axis = (key) => ({ field: key, type: "quantitative", axis: null, scale: { zero: false, padding: 20 } });
    const points = {
      mark: { type: "point", filled: true, opacity: 0.75, cursor: "pointer" },
      params: [{ name: "zoom", select: "interval", bind: "scales" }],
      encoding: {
        x: axis("x"), y: axis("y"),
        size: { field: "count", type: "quantitative", scale: { type: "sqrt", range: [20, 300] }, legend: null },
        tooltip: [{ field: "label", title: "name" }, { field: "count", title: "facts" }],
      },
    };
    const names = {
      transform: [{ window: [{ op: "rank", as: "place" }], sort: [{ field: "count", order: "descending" }] }, { filter: `datum.place <= ${kind === "entity" ? 12 : 40}` }],
      mark: { type: "text", dy: -9, limit: 110, fontSize: 11 },
      encoding: { x: axis("x"), y: axis("y"), text: { field: "label" } },
    };
    const pick = (row) => kind === "entity" ? go("see", { part: "around", name: row.name }) : go("see", { part: "mixing", name: row.name });
    return [
      heading(kind === "entity" ? "Entity map" : "Relation map"),
      figure({
        title: `${number(rows.length)} ${what} in two dimensions`,
        text: `The model describes each of the ${what} by a list of numbers. Here the list is squeezed into two: what stands close together is similar to the model. Drag to move, roll to zoom, choose a point to go on.`,
        spec: { height: 480, layer: [points, names] }, rows, models, signal, onpick: pick,
        columns: [["Name", "label"], ["Facts", "count"], ["x", "x"], ["y", "y"]],
      }),
    ];
  });
}

async function mixing(place, { run, params, signal }) {
  const picture = make("div", {});
  const relation = params.name ?? await frequent(run, "relation", signal);
  if (signal.aborted) return;
  place.append(
    chooser(run, "relation", "Relation", relation, (chosen) => go("see", { part: "mixing", name: chosen })), picture);
  await load(picture, "the matrix", signal, async () => {
    const found = await api(of(run, "mixing", { relation }), { signal });
    return [
      heading("Mixing matrix of ", labelled(found.label, found.relation)),
      help("How a relation joins its two sides: a cell says how strongly a coordinate of the subject (row) acts together with a coordinate of the object (column). Orange speaks for a fact, blue against it.",
        found.step > 1 ? ` The matrix has ${number(found.entity_dim)} rows; each cell shows the strongest of ${found.step} × ${found.step} values.` : ""),
      make("figure", {}, heatMap(found, "Mixing matrix", signal)),
    ];
  });
}

async function core(place, { run, runs, signal }) {
  const { models } = about({ run, runs });
  await load(place, "the core", signal, async () => {
    const found = await api(of(run, "core"), { signal });
    const rows = found.slices.map((share, n) => ({ slice: n + 1, share, percent: percent(share) }));
    return [
      heading("The core"),
      figure({
        title: `The core is ${percent(found.density)} filled`,
        text: "The core says which coordinates of subject, relation and object may act together. It is a stack of slices, one for each coordinate of a relation. Empty places cost nothing: a sparse core is a small model, whose answers have few reasons.",
        rows, models, signal, columns: [["Slice", "slice"], ["Filled", "percent"]],
        spec: {
          height: 260, mark: "bar",
          encoding: {
            x: { field: "slice", type: "ordinal", title: "slice", axis: { labelOverlap: true, labelAngle: 0 } },
            y: { field: "share", type: "quantitative", title: "share of places filled", axis: { format: "%" } },
            tooltip: [{ field: "slice" }, { field: "percent", title: "filled" }],
          },
        },
      }),
    ];
  });
}

async function learning(place, { run, runs, signal }) {
  const { models, graph } = about({ run, runs });
  await load(place, "the learning curves", signal, async () => {
    const { epochs } = await api(of(run, "epochs"), { signal });
    const rows = epochs.map((one) => ({ epoch: one.epoch, loss: one.loss, mrr: one.valid?.standard?.mrr ?? null, density: one.core_density ?? null }));
    if (!rows.length) return [heading("Learning"), make("p", {}, "This run has noted no epochs: it was merged from others or is the result of adding entities.")];
    const curve = (key, name, text, whose) => {
      const some = rows.filter((row) => row[key] !== null);
      return some.length ? figure({
        title: `${name} (${whose})`, text, rows: some, models, signal, columns: [["Epoch", "epoch"], [name, key]],
        spec: {
          height: 220, mark: { type: "line", point: true },
          encoding: {
            x: { field: "epoch", type: "quantitative", title: "epoch", axis: { tickMinStep: 1, format: "d" }, scale: { zero: false } },
            y: { field: key, type: "quantitative", title: name, scale: key === "mrr" ? mrrScale(some) : { zero: false } },
            tooltip: [{ field: "epoch" }, { field: key, format: ".4", title: name }],
          },
        },
      }) : null;
    };
    return [
      heading("Learning"),
      curve("mrr", "MRR on validation facts", `How well facts that were held back are found, after each pass (epoch) over the training facts. ${MRR}`, `${graph}, valid, protocol standard`),
      curve("loss", "Loss", "What training makes small, after each epoch.", `${graph}, train`),
      rows.some((row) => row.density !== null && row.density < 1)
        ? curve("density", "Share of the core that is filled", "A sparse model learns which places of its core it can do without.", graph) : null,
    ];
  });
}

async function results(place, { run, runs, signal }) {
  const { models, graph } = about({ run, runs });
  await load(place, "the results", signal, async () => {
    const found = await api(of(run, "results"), { signal });
    const rows = found.relations.map((row) => ({
      name: row.relation, label: row.label ?? row.relation, questions: row.standard.queries,
      mrr: row.standard.mrr, hits: row.standard["hits@10"],
    }));
    if (!rows.length) return [heading("Results by relation"), make("p", {}, "No facts were held back from training, so there is nothing to test with.")];
    const whole = found.metrics.standard;
    const shown = rows.slice(0, 40);
    return [
      heading("Results by relation"),
      make("p", {}, `Facts of the split “${found.split}”, ${number(found.triples)} of them, were asked for in both directions. MRR ${number(whole.mrr)}; among the first ten answers in ${percent(whole["hits@10"])} of ${count(whole.queries, "question")}.`),
      figure({
        title: `MRR by relation (${graph}, ${found.split}, protocol standard)`, rows: shown, models, signal,
        text: `${MRR} The number beside a bar is how many questions it rests on: few questions tell little.`,
        columns: [["Relation", "label"], ["Questions", "questions"], ["MRR", "mrr"], ["First ten", "hits"]],
        spec: {
          height: 30 + 22 * shown.length,
          encoding: { y: { field: "label", type: "nominal", sort: null, title: null, axis: { labelLimit: 130 } }, x: { field: "mrr", type: "quantitative", title: "MRR", scale: { domain: [0, 1] } } },
          layer: [
            { mark: { type: "bar" }, encoding: { tooltip: [{ field: "label", title: "relation" }, { field: "mrr", format: ".3" }, { field: "hits", format: ".1%", title: "first ten" }, { field: "questions" }] } },
            { mark: { type: "text", align: "left", dx: 4 }, encoding: { text: { field: "questions", format: "," } } },
          ],
        },
      }),
      rows.length > shown.length ? make("p", { class: "quiet" }, `The chart shows the ${shown.length} relations with the most questions.`) : null,
    ];
  });
}

async function calibration(place, { run, runs, signal }) {
  const { models, graph } = about({ run, runs });
  await load(place, "the calibration", signal, async () => {
    const found = await api(of(run, "calibration"), { signal });
    const { bins, brier, expected_calibration_error: error } = found.reliability;
    const rows = bins.filter((bin) => bin.count > 0);
    return [
      heading("Calibration"),
      figure({
        title: `Do the probabilities hold? (${graph}, ${found.split})`, rows, models, signal,
        text: "Of all facts to which the model gives about 70 %, about 70 % should be true. On the diagonal they are; larger points rest on more facts.",
        columns: [["Probability given", "mean_probability"], ["Share that is true", "share_true"], ["Facts", "count"]],
        spec: {
          height: 320,
          encoding: {
            x: { field: "mean_probability", type: "quantitative", title: "probability given", axis: { format: "%" }, scale: { domain: [0, 1] } },
            y: { field: "share_true", type: "quantitative", title: "share that is true", axis: { format: "%" }, scale: { domain: [0, 1] } },
          },
          layer: [
            { data: { values: [{ a: 0 }, { a: 1 }] }, mark: { type: "line", strokeDash: [4, 4], opacity: 0.6 }, encoding: { x: { field: "a", type: "quantitative" }, y: { field: "a", type: "quantitative" } } },
            { mark: { type: "line" } },
            {
              mark: { type: "point", filled: true, opacity: 1 },
              encoding: {
                size: { field: "count", type: "quantitative", legend: null, scale: { range: [30, 300] } },
                tooltip: [{ field: "mean_probability", format: ".1%", title: "given" }, { field: "share_true", format: ".1%", title: "true" }, { field: "count", title: "facts" }],
              },
            },
          ],
        },
      }),
      make("p", {}, `Fitted on ${number(found.triples)} facts of the split “${found.split}” and ${number(found.corrupted)} made-up ones. `,
        `The probabilities are off by ${percent(error)} on average (expected calibration error); Brier score ${number(brier)}, where 0 is perfect.`),
    ];
  });
}

/** Runs that no other beats with as few parameters. */
function skyline(rows) {
  let best = -Infinity;
  return [...rows].sort((a, b) => a.parameters - b.parameters || b.mrr - a.mrr)
    .filter((row) => row.mrr > best && ((best = row.mrr), true));
}

async function compared(place, { runs, run, signal }) {
  const graphs = new Set(runs.map((one) => one.graph));
  const rows = runs.map((one) => ({
    name: one.name, model: one.model, graph: one.graph, parameters: one.effective_parameters,
    mrr: one.figures.standard?.mrr ?? null, hits: one.figures.standard?.["hits@10"] ?? null,
  }));
  const judged = rows.filter((row) => row.mrr !== null);
  const onSkyline = new Set(skyline(judged));
  place.append(
    heading("Models compared"),
    help("All models that this server has, by their MRR on validation facts. ", MRR,
      graphs.size > 1 ? " They were trained on different graphs, so that their figures do not compare." : ""),
    table("Models", [
      ["Run", (row) => row.name === run ? make("strong", {}, named(row.name)) : link(to("see", { run: row.name, part: "runs" }), named(row.name))],
      ["Model", (row) => row.model], ["Graph", (row) => named(row.graph)],
      ["MRR", (row) => number(row.mrr), "number"],
      ["First ten", (row) => row.hits === null ? "–" : percent(row.hits), "number"],
      ["Parameters", (row) => number(row.parameters), "number"],
      ["Skyline", (row) => onSkyline.has(row) ? "yes" : ""],
    ], rows));
  if (!judged.length) return;
  const models = [...new Set(judged.map((row) => row.model))];
  const marked = judged.map((row) => ({ ...row, kind: onSkyline.has(row) ? "skyline" : "beaten" }));
  place.append(figure({
    title: `Skyline: quality and size (${[...graphs].join(", ")}, valid, protocol standard)`, rows: marked, models, signal,
    text: "Further up is better, further left is smaller. Models on the line are on the skyline: none that is as small does better.",
    columns: [["Run", "name"], ["Parameters", "parameters"], ["MRR", "mrr"], ["Skyline", "kind"]],
    spec: {
      height: 320,
      encoding: {
        x: { field: "parameters", type: "quantitative", title: "parameters", scale: { type: "log", nice: false, padding: 40 }, axis: { format: "~s", tickCount: 4 } },
        y: { field: "mrr", type: "quantitative", title: "MRR", scale: mrrScale(marked) },
        color: { field: "model", type: "nominal", sort: models, scale: { domain: models }, legend: { title: null } },
      },
      layer: [
        { transform: [{ filter: "datum.kind == 'skyline'" }], mark: { type: "line", interpolate: "step-after" }, encoding: { color: { value: "gray" } } },
        { mark: { type: "point", filled: true, size: 110, opacity: 1 }, encoding: { shape: { field: "kind", legend: { title: null } }, tooltip: [{ field: "name", title: "run" }, { field: "mrr", format: ".3" }, { field: "parameters", format: "," }] } },
        { mark: { type: "text", dy: -12, limit: 120 }, encoding: { text: { field: "name" } } },
      ],
    },
  }));
}
