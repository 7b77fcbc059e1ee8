// About an entity: what the graph holds, and what the model expects.

import { get } from "./api.js";
import { about, because, next } from "./ask.js";
import { certainty, element, named, shape, table, tell } from "./dom.js";
import { addressOf } from "./route.js";

const [SIZE, SHOWN] = [560, 12];

export async function entity(main, run, state) {
  const found = await get(run.name, "neighbourhood", { name: state.name, known: 100, predicted: 30 });
  tell("");
  main.replaceChildren(
    named(found.label, "h2"),
    element("p", { class: "quiet" }, found.label === found.name ? "" : named(found.name), ` ${found.facts.toLocaleString("en")} known facts`),
    around(found, run),
    element(
      "div",
      { class: "columns" },
      facts(run, "New facts that the model predicts", found.predicted, true),
      facts(run, found.known.length < found.facts ? `Some of the known facts (${found.known.length})` : "Known facts", found.known, false),
    ),
  );
}

// The entity in the middle, known facts to the left, new ones, dashed, to the right.
function around(found, run) {
  const picture = shape("svg", { viewBox: `0 0 ${2 * SIZE} ${SIZE}`, class: "paths around", role: "group", "aria-label": "The neighbourhood as a picture; the tables below hold the same" });
  for (const [rows, side, kind] of [[found.known.slice(0, SHOWN), -1, "for"], [found.predicted.slice(0, SHOWN), 1, "against"]]) {
    rows.forEach((row, number) => {
      const isSubject = row.subject === found.name;
      const [name, label] = isSubject ? [row.object, row.object_label] : [row.subject, row.subject_label];
      const [x, y] = [SIZE + side * 330, (SIZE * (number + 0.5)) / rows.length];
      picture.append(shape("path", { class: kind, d: `M${SIZE} ${SIZE / 2} Q${SIZE + side * 200} ${y} ${x} ${y}`, "stroke-width": 1.5 }));
      const way = isSubject ? `${row.relation_label} →` : `← ${row.relation_label}`;
      picture.append(shape("text", { x: SIZE + side * 235, y: y - 5, "text-anchor": "middle", class: "title" }, short(way, 24)));
      const link = shape("a", { href: addressOf({ run: run.name, view: "about", name }) });
      link.append(shape("circle", { cx: x, cy: y, r: 6 }), shape("text", { x: x + side * 12, y: y + 5, "text-anchor": side < 0 ? "end" : "start" }, short(label, 26)));
      picture.append(link);
    });
  }
  picture.append(shape("circle", { cx: SIZE, cy: SIZE / 2, r: 10 }), shape("text", { x: SIZE, y: SIZE / 2 - 16, "text-anchor": "middle" }, short(found.label, 30)));
  return picture;
}

function short(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

function facts(run, caption, rows, arePredicted) {
  if (!rows.length) return element("p", { class: "quiet" }, `${caption}: none`);
  const columns = [
    ["Subject", (row) => about(run, row.subject, row.subject_label)],
    ["Relation", (row) => next(run, { subject: row.subject, relation: row.relation }, row.relation_label)],
    ["Object", (row) => about(run, row.object, row.object_label)],
  ];
  if (arePredicted) columns.push([rows[0].probability == null ? "Score" : "Probability", certainty, "number"], ["Why", (row) => because(run, row)]);
  return table(caption, columns, rows);
}
