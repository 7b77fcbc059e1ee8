/** Add: a new entity with a few facts, and questions about it at once. */

import { api, load, of } from "./api.js";
import { triple } from "./ask.js";
import { NameField } from "./combobox.js";
import { announce, badge, count, help, labelled, make, number, probability, table } from "./dom.js";

export const title = "Add";

let made = 0;

export async function show(root, { run, signal }) {
  const name = make("input", { type: "text", id: "new-name", dir: "auto", autocomplete: "off", required: true, maxlength: 10_000 });
  const rows = make("div", {});
  const facts = new Map();
  const addRow = () => {
    const id = ++made;
    const relation = new NameField(run, "relation", "Relation");
    const other = new NameField(run, "entity", "Known entity");
    const side = make("select", { id: `side-${id}` },
      make("option", { value: "subject" }, "the subject: new · relation · known"),
      make("option", { value: "object" }, "the object: known · relation · new"));
    const row = make("fieldset", {}, make("legend", {}, `Fact ${id}`),
      make("div", { class: "triple" },
        make("div", { class: "field" }, make("label", { for: `side-${id}` }, "The new one is"), side),
        relation.element, other.element),
      make("button", { type: "button", onclick: () => { facts.delete(row); row.remove(); } }, `Remove fact ${id}`));
    facts.set(row, { relation, other, side });
    rows.append(row);
  };
  made = 0;
  addRow();
  addRow();
  const asked = new NameField(run, "relation", "What do you want to know?", { hint: "a relation: the model answers New · relation · ?" });
  const place = make("section", {});
  const submit = (event) => {
    event.preventDefault();
    const fresh = name.value.trim();
    const triples = [...facts.values()].filter((fact) => fact.relation.value && fact.other.value).map((fact) =>
      fact.side.value === "subject" ? [fresh, fact.relation.value, fact.other.value] : [fact.other.value, fact.relation.value, fresh]);
    if (!triples.length || !asked.value) {
      place.replaceChildren(make("p", { role: "alert", class: "problem" }, "Give at least one fact with relation and entity, and a relation to ask about."));
      return;
    }
    load(place, "the new entity", signal, () => answers(run, fresh, triples, asked.value, signal));
  };
  root.append(
    make("h1", {}, "Add"),
    help("Someone or something that the model has never seen: give a name and a few facts, and ask at once. Nothing is stored; the model and its graph stay as they are."),
    make("form", { class: "card", onsubmit: submit },
      make("div", { class: "field" }, make("label", { for: "new-name" }, "New name"), name),
      rows,
      make("div", { class: "row" }, make("button", { type: "button", onclick: addRow }, "One more fact")),
      asked.element,
      make("div", { class: "row" }, make("button", { class: "main" }, "Add and ask"))),
    place);
}

async function answers(run, fresh, triples, relation, signal) {
  const body = { triples, questions: [{ subject: fresh, relation }], top: 10, known: true };
  const found = (await api(of(run, "add"), { body, signal })).answers[0];
  announce(`${count(found.length, "answer")}.`);
  const hasProbability = found.some((row) => typeof row.probability === "number");
  return [
    make("h2", { id: "results", tabindex: "-1" }, triple({ subject: fresh, relation: found[0]?.relation ?? relation }, "object")),
    found.length ? table("Answers", [
      ["Answer", (row) => labelled(row.label, row.answer)],
      ["Rank", (row) => number(row.rank), "number"],
      ...(hasProbability ? [["Probability", (row) => probability(row.probability)]] : []),
      ["Score", (row) => number(row.score), "number"],
      ["Among your facts?", (row) => badge(row.known)],
    ], found) : make("p", {}, "There is no answer that is left."),
  ];
}
