// Why: the score as a sum of paths from subject through the core to object, and supporting facts.

import { post } from "./api.js";
import { about, newness, next } from "./ask.js";
import { element, named, percent, shape, table, tell } from "./dom.js";

const [WIDTH, STEP, MARGIN] = [640, 30, 40];

export async function why(main, run, state) {
  const triple = { subject: state.subject ?? "", relation: state.relation ?? "", object: state.object ?? "" };
  const found = await post(run.name, "why", { ...triple, top: 12 });
  tell("");
  const title = element("h2", {}, named(found.subject), " – ", named(found.relation), " – ", named(found.object));
  const said = found.probability == null ? `score ${found.plausibility.toFixed(3)}` : `probability ${percent(found.probability)}`;
  main.replaceChildren(
    title,
    element("p", {}, `This fact is `, newness(found.known), `; ${said}. `, next(run, { subject: found.subject, relation: found.relation }, "Ask for other objects")),
    element("h3", {}, "Known facts that it rests on"),
    facts(run, found.facts),
    ...found.asked.flatMap((way) => parts(way, found.asked.length > 1)),
  );
}

function facts(run, rows) {
  if (!rows.length) return element("p", { class: "quiet" }, "None.");
  return table("Without such a fact the plausibility would fall by its support; below 0 it speaks against", [
    ["Subject", (row) => about(run, row.subject, row.subject)],
    ["Relation", (row) => next(run, { subject: row.subject, relation: row.relation }, row.relation)],
    ["Object", (row) => about(run, row.object, row.object)],
    ["Support", (row) => row.support.toPrecision(3), "number"],
  ], rows);
}

function parts(way, isOneOfTwo) {
  const shown = way.parts.length;
  const title = isOneOfTwo ? `The score, asked for the ${way.way}` : "The score, part by part";
  const sentence = `${way.score.toFixed(3)} is the sum of ${way.interactions.toLocaleString("en")} interactions of coordinates; the ${shown} strongest are drawn, and the rest adds ${way.rest.toFixed(3)}.`;
  return [
    element("h3", {}, title),
    element("p", { class: "quiet" }, sentence),
    drawn(way.parts),
    element(
      "details",
      {},
      element("summary", {}, "As a table"),
      table("Each part is the product of its numbers", [
        ["Subject", (row) => place(row.subject_coordinate), "number"],
        ["value", (row) => row.subject_value.toPrecision(3), "number"],
        ["Slice", (row) => place(row.relation_coordinate), "number"],
        ["core × relation", (row) => (row.core * row.relation_value).toPrecision(3), "number"],
        ["Object", (row) => place(row.object_coordinate), "number"],
        ["value", (row) => row.object_value.toPrecision(3), "number"],
        ["Part", (row) => row.part.toPrecision(3), "number"],
      ], way.parts),
    ),
  ];
}

function place(coordinate) {
  return coordinate == null ? "1" : String(coordinate);
}

// Three columns of coordinates; a line is as wide as its part is large, dashed where it is negative.
function drawn(rows) {
  const keys = ["subject_coordinate", "relation_coordinate", "object_coordinate"];
  const columns = keys.map((key) => [...new Set(rows.map((row) => place(row[key])))]);
  const height = MARGIN + STEP * Math.max(...columns.map((column) => column.length));
  const spot = (column, text) => [
    MARGIN + (column * (WIDTH - 2 * MARGIN)) / 2,
    MARGIN + STEP * (columns[column].indexOf(text) + 0.5 * (Math.max(...columns.map((c) => c.length)) - columns[column].length) + 0.5),
  ];
  const picture = shape("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", class: "paths", "aria-label": "Paths from coordinates of the subject by slices of the core to coordinates of the object" });
  const largest = Math.max(...rows.map((row) => Math.abs(row.part)), 1e-12);
  for (const row of rows) {
    const [[x, y], [u, v], [s, t]] = keys.map((key, column) => spot(column, place(row[key])));
    const line = shape("path", {
      d: `M${x} ${y} C${(x + u) / 2} ${y} ${(x + u) / 2} ${v} ${u} ${v} S${(u + s) / 2} ${t} ${s} ${t}`,
      class: row.part < 0 ? "against" : "for",
      "stroke-width": 1 + 7 * (Math.abs(row.part) / largest),
    });
    line.append(shape("title", {}, `${row.part.toPrecision(3)}: ${place(row.subject_coordinate)} → slice ${place(row.relation_coordinate)} → ${place(row.object_coordinate)}`));
    picture.append(line);
  }
  ["subject", "slice of the core", "object"].forEach((title, column) => {
    const [x] = spot(column, columns[column][0]);
    picture.append(shape("text", { x, y: 16, "text-anchor": ["start", "middle", "end"][column], class: "title" }, title));
    for (const text of columns[column]) {
      const [cx, cy] = spot(column, text);
      picture.append(shape("circle", { cx, cy, r: 12 }), shape("text", { x: cx, y: cy + 4, "text-anchor": "middle" }, text));
    }
  });
  return picture;
}
