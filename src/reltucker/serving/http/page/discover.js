// Discover: new facts, to be accepted or rejected, and the accepted ones as triples.

import { lines } from "./api.js";
import { about, because, next } from "./ask.js";
import { certainty, element, named, problem, table, tell } from "./dom.js";
import { typeahead } from "./typeahead.js";

export async function discover(main, run, state, go) {
  const relation = typeahead({ title: "Of the relation", run: run.name, kind: "relation", value: state.relation ?? "", placeholder: "all" });
  const entity = typeahead({ title: "About the entity", run: run.name, kind: "entity", value: state.entity ?? "", placeholder: "all" });
  const least = element("input", { id: "least", type: "number", min: 0, max: 1, step: 0.01, value: state.least ?? "" });
  const leastField = element("div", { class: "field", hidden: !run.calibrated }, element("label", { for: "least" }, "Probability of at least"), least);
  const form = element("form", { class: "question", "aria-label": "Which facts" }, relation.field, entity.field, leastField, element("div", { class: "options" }, element("button", { class: "main", type: "submit" }, "Look for facts")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go({ run: run.name, view: "discover", relation: relation.input.value, entity: entity.input.value, least: least.value, look: "1" });
  });
  const results = element("section", { "aria-label": "New facts" });
  main.replaceChildren(element("h2", {}, "Discover"), element("p", { class: "quiet" }, "The most probable facts that the graph does not hold."), form, results);
  if (state.look) await look(results, run, state);
}

async function look(place, run, state) {
  const bar = element("progress", { "aria-label": "Looked at" });
  place.replaceChildren(bar);
  const wanted = {
    top: 100,
    relations: state.relation ? [state.relation] : null,
    entities: state.entity ? [state.entity] : null,
    min_probability: run.calibrated && state.least ? Number(state.least) : null,
  };
  const facts = [];
  try {
    for await (const line of lines(run.name, "discover", wanted)) {
      if (!place.isConnected) return;
      if (line.error) throw new Error(line.error);
      if (line.fact) facts.push(line.fact);
      else Object.assign(bar, { max: line.total, value: line.done });
    }
  } catch (error) {
    if (error.status === 401) throw error;
    place.replaceChildren(problem(error));
    return;
  }
  tell(`${facts.length} facts`);
  place.replaceChildren(facts.length ? judged(run, facts) : element("p", {}, "There is no such fact."));
}

function judged(run, facts) {
  const accepted = new Set();
  const save = element("a", { class: "button", download: "accepted.tsv", hidden: true });
  function update() {
    URL.revokeObjectURL(save.href);
    const rows = facts.filter((fact) => accepted.has(fact)).map(({ subject, relation, object }) => [subject, relation, object]);
    // TSV knows no quotes: names with tabs or line ends would break it, and go as CSV.
    const isPlain = !rows.flat().some((text) => /[\t\r\n]/.test(text));
    const quoted = (text) => `"${text.replaceAll('"', '""')}"`;
    const text = rows.map((row) => (isPlain ? row.join("\t") : row.map(quoted).join(","))).join("\n");
    save.href = URL.createObjectURL(new Blob([`${text}\n`], { type: "text/plain;charset=utf-8" }));
    save.download = isPlain ? "accepted.tsv" : "accepted.csv";
    save.textContent = `Save ${accepted.size} accepted as triples`;
    save.hidden = !accepted.size;
  }
  const choice = (fact) => {
    const buttons = ["accept", "reject"].map((word) =>
      element("button", { type: "button", "aria-pressed": "false", "aria-label": `${word} fact ${fact.rank}` }, word),
    );
    buttons.forEach((button, number) =>
      button.addEventListener("click", () => {
        const isOn = button.getAttribute("aria-pressed") === "true";
        buttons.forEach((other) => other.setAttribute("aria-pressed", "false"));
        button.setAttribute("aria-pressed", String(!isOn));
        if (number === 0 && !isOn) accepted.add(fact);
        else accepted.delete(fact);
        update();
      }),
    );
    return element("span", { class: "choice" }, ...buttons);
  };
  const shown = table("New facts, the most probable first", [
    ["Rank", (row) => String(row.rank), "number"],
    ["Subject", (row) => about(run, row.subject, row.subject)],
    ["Relation", (row) => next(run, { subject: row.subject, relation: row.relation }, row.relation)],
    ["Object", (row) => about(run, row.object, row.object)],
    [facts[0].probability == null ? "Score" : "Probability", certainty, "number"],
    ["Why", (row) => because(run, row)],
    ["Judge", choice],
  ], facts);
  return element("div", {}, element("p", {}, save), shown);
}
