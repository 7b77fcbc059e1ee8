// About an entity: what the graph holds, and what the model expects.

import { get } from "./api.js";
import { about, because, next } from "./ask.js";
import { certainty, element, named, table, tell } from "./dom.js";

export async function entity(main, run, state) {
  const found = await get(run.name, "neighbourhood", { name: state.name, known: 100, predicted: 30 });
  tell("");
  main.replaceChildren(
    named(found.label, "h2"),
    element("p", { class: "quiet" }, found.label === found.name ? "" : named(found.name), ` ${found.facts.toLocaleString("en")} known facts`),
    element(
      "div",
      { class: "columns" },
      facts(run, "New facts that the model predicts", found.predicted, true),
      facts(run, found.known.length < found.facts ? `Some of the known facts (${found.known.length})` : "Known facts", found.known, false),
    ),
  );
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
