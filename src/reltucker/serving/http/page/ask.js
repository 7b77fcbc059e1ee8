/** Ask: a question with one open place, its answers, and what is around an entity. */

import { go, to } from "./address.js";
import { api, load, of, withLabels } from "./api.js";
import { NameField } from "./combobox.js";
import { announce, badge, count, help, labelled, link, make, named, number, probability, table } from "./dom.js";
import { around } from "./neighbourhood.js";

const PLACES = ["subject", "relation", "object"];

export const title = "Ask";

/** The three fields of a triple, with their values in `params` s, r and o. */
export function tripleFields(run, params, hints = {}) {
  return {
    s: new NameField(run, "entity", "Subject", { value: params.s, hint: hints.s }),
    r: new NameField(run, "relation", "Relation", { value: params.r, hint: hints.r }),
    o: new NameField(run, "entity", "Object", { value: params.o, hint: hints.o }),
  };
}

export async function show(root, { run, params, signal }) {
  const fields = tripleFields(run, params, {
    s: "who or what", r: "stands in which relation", o: "to whom or what",
  });
  const where = {
    wr: new NameField(run, "relation", "where this relation", { value: params.wr }),
    wo: new NameField(run, "entity", "has this object", { value: params.wo }),
  };
  const option = (name, label, isOn) =>
    make("label", {}, make("input", { type: "checkbox", name, checked: isOn }), " ", label);
  const top = make("select", { name: "top" },
    ["10", "25", "100"].map((n) => make("option", { selected: n === (params.top ?? "10") }, n)));
  const submit = (event) => {
    event.preventDefault();
    const values = Object.fromEntries(
      Object.entries({ ...fields, ...where }).map(([key, field]) => [key, field.value]));
    const data = new FormData(event.target);
    go("ask", {
      ...values,
      new: data.has("new") && "1", range: data.has("range") && "1",
      top: data.get("top") === "10" ? "" : data.get("top"),
    });
  };
  const results = make("section", {});
  root.append(
    make("h1", {}, "Ask"),
    help("A fact has three parts, such as ", make("em", {}, "Alma · mother · Berta"),
      ". Fill in two of them and leave the third empty: the model proposes what belongs there."),
    make("form", { class: "card", onsubmit: submit },
      make("div", { class: "triple" }, Object.values(fields).map((field) => field.element)),
      make("div", { class: "row" },
        option("new", "only new facts", params.new),
        option("range", "only answers of the right kind", params.range),
        make("label", {}, "answers ", top)),
      make("details", { open: params.wr || params.wo },
        make("summary", {}, "Limit the answers further"),
        help("For example ", make("em", {}, "lives_in"), " and ", make("em", {}, "Karlsberg"),
          ": only answers of which the graph says so."),
        make("div", { class: "triple" }, Object.values(where).map((field) => field.element))),
      make("button", { class: "main" }, "Ask")),
    results);
  const given = ["s", "r", "o"].filter((key) => params[key]);
  if (given.length === 3) {
    location.replace(to("why", params));
  } else if (given.length === 2) {
    await load(results, "answers", signal, () => answers(run, params, signal));
  } else if (given.length === 1 && given[0] !== "r") {
    await around(results, run, params[given[0]], signal);
  } else if (given.length === 1) {
    results.append(make("p", {}, "Now fill in the subject or the object, too."));
  } else {
    await load(results, "examples", signal, () => examples(run, signal));
  }
}

/** Questions to begin with, made of facts around a frequent entity. */
async function examples(run, signal) {
  const [first] = await api(of(run, "names", { limit: 1 }), { signal });
  if (!first) return make("p", {}, "This graph has no entities.");
  const { known } = await api(of(run, "neighbourhood", { name: first.name, predicted: 0 }), { signal });
  const facts = known.slice(0, 3);
  const open = ["object", "subject", "relation"];
  const question = (fact, place) => {
    const keys = { subject: "s", relation: "r", object: "o" };
    const params = Object.fromEntries(
      PLACES.filter((part) => part !== place).map((part) => [keys[part], fact[part]]));
    return make("li", {}, link(to("ask", params), triple(fact, place)));
  };
  return [
    make("h2", { id: "results" }, "For example"),
    make("ul", { class: "plain" }, facts.map((fact, n) => question(fact, open[n])),
      make("li", {}, link(to("ask", { s: first.name }), "What is around ", named(first.label), "?"))),
  ];
}

/** A fact on one line, with a question mark in the open place. */
export function triple(fact, open) {
  return PLACES.flatMap((place, n) => [
    n ? make("span", { class: "dot" }, " · ") : null,
    place === open ? make("strong", {}, "?") : named(fact[`${place}_label`] ?? fact[place]),
  ]);
}

async function answers(run, params, signal) {
  const asked = { subject: params.s, relation: params.r, object: params.o };
  const body = {
    questions: [asked], top: Number(params.top ?? 10), known: !params.new,
  };
  const open = PLACES.find((place) => !asked[place]);
  if (open !== "relation") { // whose kind is its own
    body.in_range = Boolean(params.range);
    body.where = params.wr && params.wo ? [`${params.wr}=${params.wo}`] : [];
  }
  const found = (await api(of(run, "predict"), { body, signal })).answers[0];
  const [question] = await withLabels(run, [found[0] ?? asked], signal);
  announce(`${count(found.length, "answer")}.`);
  const heading = make("h2", { id: "results", tabindex: "-1" },
    triple(question, open));
  if (!found.length) {
    return [heading, make("p", {}, "There is no answer that is left. Ask for known facts, too, or limit the answers less.")];
  }
  const isCalibrated = found.some((row) => row.probability !== null && row.probability !== undefined);
  const onwards = (row) => open === "relation"
    ? to("ask", { s: row.subject, r: row.relation }) : to("ask", { s: row.answer });
  const why = (row) => link(to("why", { s: row.subject, r: row.relation, o: row.object }),
    "Why?", make("span", { class: "unseen" }, " ", named(row.label)));
  return [
    heading,
    help("Best first. ", isCalibrated
      ? "The probability says how often such a fact is true, known or not, by what the model has learned; it was fitted on facts held back from training."
      : ["The score orders the answers of one question; it is no probability. This model has none: ", make("code", {}, "reltucker calibrate"), " makes them."]),
    table("Answers", [
      ["Answer", (row) => link(onwards(row), labelled(row.label, row.answer))],
      ["Rank", (row) => number(row.rank), "number"],
      ...(isCalibrated ? [["Probability", (row) => probability(row.probability)]] : []),
      ["Score", (row) => number(row.score), "number"],
      ["In the graph?", (row) => badge(row.known)],
      ["Reasons", why],
    ], found),
  ];
}
