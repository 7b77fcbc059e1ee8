// Ask: a triple with one part left open, and its answers.

import { get, post } from "./api.js";
import { certainty, element, named, problem, table, tell } from "./dom.js";
import { link } from "./route.js";
import { typeahead } from "./typeahead.js";

const PARTS = ["subject", "relation", "object"];

export async function ask(main, run, state, go) {
  const fields = PARTS.map((part) =>
    typeahead({
      title: part[0].toUpperCase() + part.slice(1),
      run: run.name,
      kind: part === "relation" ? "relation" : "entity",
      value: state[part] ?? "",
      placeholder: "?",
    }),
  );
  const top = element("select", {}, ...[10, 25, 100].map((n) => element("option", { value: n, selected: String(n) === state.top }, String(n))));
  const typed = element("input", { type: "checkbox", checked: state.any == null });
  const known = element("input", { type: "checkbox", checked: state.known != null });
  const form = element(
    "form",
    { class: "question", "aria-label": "Question" },
    ...fields.map(({ field }) => field),
    element(
      "div",
      { class: "options" },
      element("label", {}, typed, " answers of the right type only"),
      element("label", {}, known, " known facts, too"),
      element("label", {}, "answers ", top),
      element("button", { class: "main", type: "submit" }, "Ask"),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = Object.fromEntries(PARTS.map((part, n) => [part, fields[n].input.value]));
    go({
      run: run.name,
      view: "ask",
      ...asked,
      any: typed.checked ? null : "1",
      known: known.checked ? "1" : null,
      top: top.value === "10" ? null : top.value,
    });
  });
  const answers = element("section", { "aria-label": "Answers" });
  main.replaceChildren(
    element("h2", {}, "Ask"),
    element("p", { class: "quiet" }, "Leave open what you want to know. Begin to type, and choose a name."),
    form,
    answers,
  );
  const open = PARTS.filter((part) => !state[part] || state[part] === "?");
  if (open.length === 3) return suggest(answers, run);
  answers.setAttribute("aria-busy", "true");
  answers.replaceChildren(element("p", { class: "quiet" }, "Asking …"));
  try {
    answers.replaceChildren(open.length ? await answer(run, state, open) : await score(run, state));
  } catch (error) {
    if (error.status === 401) throw error;
    answers.replaceChildren(problem(error));
    tell("");
  } finally {
    answers.removeAttribute("aria-busy");
  }
}

async function answer(run, state, open) {
  const question = Object.fromEntries(PARTS.map((part) => [part, state[part] || null]));
  const isRelation = open[0] === "relation";
  const document = {
    questions: [question],
    top: Math.min(1000, Math.max(1, Number.parseInt(state.top ?? "10", 10) || 10)),
    known: state.known != null,
    in_range: state.any == null && !isRelation,
  };
  const [rows] = (await post(run.name, "predict", document)).answers;
  tell(rows.length === 1 ? "1 answer" : `${rows.length} answers`);
  if (!rows.length) return element("p", {}, "There is no answer that is new and of the right type.");
  const text = (part) => (part === open[0] ? "?" : state[part]);
  const caption = `Answers to ${PARTS.map((part) => text(part).slice(0, 60)).join(" – ")}`;
  return table(caption, [
    ["Rank", (row) => String(row.rank), "number"],
    ["Answer", (row) => (isRelation ? next(run, { subject: row.subject, relation: row.answer }, row.label) : about(run, row.answer, row.label))],
    [rows[0].probability == null ? "Score" : "Probability", certainty, "number"],
    ["Fact", (row) => newness(row.known)],
    ["Why", (row) => because(run, row)],
  ], rows);
}

async function score(run, state) {
  const triple = PARTS.map((part) => state[part]);
  const [row] = (await post(run.name, "score", { triples: [triple] })).triples;
  tell("");
  if (row.score == null) return element("p", {}, "Nothing was learned about one of these names.");
  return table("This triple", [
    [row.probability == null ? "Score" : "Probability", certainty, "number"],
    ["Rank of the object", (r) => r.object_rank.toLocaleString("en"), "number"],
    ["Rank of the subject", (r) => r.subject_rank.toLocaleString("en"), "number"],
    ["Fact", (r) => newness(r.known)],
    ["Why", (r) => because(run, r)],
  ], [row]);
}

async function suggest(place, run) {
  const [entities, relations] = await Promise.all([
    get(run.name, "names", { limit: 3 }),
    get(run.name, "names", { limit: 5, kind: "relation" }),
  ]);
  const items = entities.map((row) => element("li", {}, about(run, row.name, row.label)));
  place.replaceChildren(
    element("h3", {}, "Often mentioned"),
    element("ul", {}, ...items),
    element("h3", {}, "Frequent relations"),
    element("ul", {}, ...relations.map((row) => element("li", {}, next(run, { relation: row.name, subject: entities[0]?.name }, row.label)))),
  );
}

export function newness(isKnown) {
  return isKnown ? "known" : element("span", { class: "new" }, "new");
}

export function because(run, { subject, relation, object }) {
  const wanted = { run: run.name, view: "why", subject, relation, object };
  const made = link(wanted, "why?");
  made.setAttribute("aria-label", `Why ${[subject, relation, object].map((text) => text.slice(0, 60)).join(" – ")}`);
  return made;
}

export function about(run, name, label) {
  return link({ run: run.name, view: "about", name }, named(label));
}

export function next(run, question, label) {
  return link({ run: run.name, view: "ask", ...question }, named(label));
}
