// Add: a new entity with some facts, asked about at once. Nothing is kept on the server.

import { post } from "./api.js";
import { about, newness } from "./ask.js";
import { certainty, element, named, problem, table, tell } from "./dom.js";
import { typeahead } from "./typeahead.js";

export async function add(main, run) {
  const name = element("input", { id: "new", dir: "auto", autocomplete: "off", required: true });
  const facts = [];
  const list = element("div", {});
  function more() {
    const relation = typeahead({ title: `Relation ${facts.length + 1}`, run: run.name, kind: "relation", value: "", placeholder: "" });
    const other = typeahead({ title: `Entity ${facts.length + 1}`, run: run.name, kind: "entity", value: "", placeholder: "" });
    const turned = element("select", { "aria-label": `Place of the new entity in fact ${facts.length + 1}` }, element("option", { value: "" }, "new entity is the subject"), element("option", { value: "1" }, "new entity is the object"));
    facts.push({ relation, other, turned });
    list.append(element("div", { class: "fact" }, relation.field, other.field, turned));
  }
  more();
  const asked = typeahead({ title: "What to ask: relation", run: run.name, kind: "relation", value: "", placeholder: "" });
  const answers = element("section", { "aria-label": "Answers" });
  const form = element(
    "form",
    { class: "question single" },
    element("div", { class: "field" }, element("label", { for: "new" }, "Name of the new entity"), name),
    list,
    element("div", { class: "options" }, element("button", { type: "button", onclick: more }, "Another fact")),
    asked.field,
    element("div", { class: "options" }, element("button", { class: "main", type: "submit" }, "Ask")),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const triples = facts
      .filter(({ relation, other }) => relation.input.value && other.input.value)
      .map(({ relation, other, turned }) =>
        turned.value ? [other.input.value, relation.input.value, name.value] : [name.value, relation.input.value, other.input.value],
      );
    answers.replaceChildren(element("p", { class: "quiet" }, "Solving …"));
    try {
      if (!triples.length) throw new Error("Give at least one fact: a relation and an entity.");
      if (!asked.input.value) throw new Error("Say which relation to ask for.");
      const question = { subject: name.value, relation: asked.input.value };
      const found = await post(run.name, "add", { triples, questions: [question], in_range: true });
      const [rows] = found.answers;
      tell(`${rows.length} answers`);
      answers.replaceChildren(
        table(`Answers to ${name.value.slice(0, 60)} – ${asked.input.value.slice(0, 60)} – ?`, [
          ["Rank", (row) => String(row.rank), "number"],
          ["Answer", (row) => (found.entities.includes(row.answer) ? named(row.label) : about(run, row.answer, row.label))],
          [rows[0]?.probability == null ? "Score" : "Probability", certainty, "number"],
          ["Fact", (row) => newness(row.known)],
        ], rows),
      );
    } catch (error) {
      answers.replaceChildren(problem(error));
    }
  });
  main.replaceChildren(element("h2", {}, "Add"), element("p", { class: "quiet" }, "A new entity with some facts, asked about at once. Nothing is kept."), form, answers);
}
