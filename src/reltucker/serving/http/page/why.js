/** Understand: why a fact has its score, as a drawing of its parts and the known facts behind it. */

import { go, to } from "./address.js";
import { api, load, of, withLabels } from "./api.js";
import { triple, tripleFields } from "./ask.js";
import { badge, count, draw, help, link, make, named, number, probability, shorten, table } from "./dom.js";

export const title = "Understand";

const TOP = 12;
const ROW = 30; // pixels from one node to the next

export async function show(root, { run, params, signal }) {
  const fields = tripleFields(run, params);
  const submit = (event) => {
    event.preventDefault();
    go("why", { s: fields.s.value, r: fields.r.value, o: fields.o.value });
  };
  const place = make("section", {});
  root.append(
    make("h1", {}, "Understand"),
    help("Fill in a whole fact, known or not: how likely is it to the model, and why?"),
    make("form", { class: "card", onsubmit: submit },
      make("div", { class: "triple" }, Object.values(fields).map((field) => field.element)),
      make("div", { class: "row" }, make("button", { class: "main" }, "Explain"))),
    place);
  if (!(params.s && params.r && params.o)) {
    place.append(make("p", {}, "All three parts are needed. You also come here by “Why?” beside an answer."));
    return;
  }
  const fact = [params.s, params.r, params.o];
  await load(place, "the explanation", signal, async () => {
    const [scores, explained] = await Promise.all([
      api(of(run, "score"), { body: { triples: [fact] }, signal }),
      api(of(run, "why"), { body: { subject: params.s, relation: params.r, object: params.o, top: TOP }, signal }),
    ]);
    const [found, ...facts] = await withLabels(run, [explained, ...explained.facts], signal);
    found.facts = facts;
    const [way, ...others] = found.asked.map((each) => paths(each, found, place.clientWidth));
    return [
      summary(scores.triples[0], found), way,
      others.length ? make("details", {}, make("summary", {}, "The same, asked the other way round"), others) : null,
      support(found),
    ];
  });
}

function summary(score, found) {
  const rank = (value, place) => value === null ? null
    : make("li", {}, `Asked for the ${place}, it is number ${number(value)} of all answers that are not known.`);
  return [
    make("h2", { id: "results", tabindex: "-1" }, triple(found), " ", badge(found.known)),
    make("ul", {},
      typeof score.probability === "number" ? make("li", {}, "Probability: ", probability(score.probability)) : null,
      make("li", {}, `Score: ${number(found.plausibility)}; higher is more plausible.`),
      rank(score.object_rank, "object"), rank(score.subject_rank, "subject")),
    make("p", {}, link(to("ask", { s: found.subject, r: found.relation }), triple(found, "object")), " ",
      make("span", { class: "dot" }, "or"), " ",
      link(to("ask", { r: found.relation, o: found.object }), triple(found, "subject"))),
  ];
}

const coordinate = (value) => value === null ? "constant" : `number ${value + 1}`;

/** The strongest parts of a score, each a path from the subject through a slice of the core to the object. */
function paths(way, found, available) {
  const w = Math.max(290, Math.min((available || 760) - 34, 820));
  const columns = [
    { key: "subject_coordinate", value: "subject_value", x: 8, anchor: "start", head: shorten(found.subject_label, 18) },
    { key: "relation_coordinate", value: "relation_value", x: w / 2, anchor: "middle", head: shorten(found.relation_label, 18) },
    { key: "object_coordinate", value: "object_value", x: w - 8, anchor: "end", head: shorten(found.object_label, 18) },
  ];
  for (const column of columns) {
    column.nodes = new Map();
    for (const part of way.parts) {
      if (!column.nodes.has(part[column.key])) column.nodes.set(part[column.key], part[column.value]);
    }
  }
  const most = Math.max(...columns.map((column) => column.nodes.size));
  const h = 56 + ROW * most;
  for (const column of columns) {
    const gap = (ROW * most) / column.nodes.size;
    column.y = new Map([...column.nodes.keys()].map((node, n) => [node, 46 + gap * (n + 0.5)]));
  }
  const strongest = Math.max(...way.parts.map((part) => Math.abs(part.part)));
  const inset = Math.min(120, w * 0.29);
  const ends = [[inset, w / 2 - inset / 2], [w / 2 + inset / 2, w - inset]];
  const flows = way.parts.map((part) => {
    const y = columns.map((column) => column.y.get(part[column.key]));
    const bend = ([from, to], a, b) => `M${from} ${a}C${(from + to) / 2} ${a} ${(from + to) / 2} ${b} ${to} ${b}`;
    return draw("path", {
      d: bend(ends[0], y[0], y[1]) + bend(ends[1], y[1], y[2]),
      class: part.part < 0 ? "flow against" : "flow",
      "stroke-width": 1 + (9 * Math.abs(part.part)) / strongest,
    }, draw("title", {}, `part ${number(part.part)}`));
  });
  const texts = columns.map((column) => [
    draw("text", { x: column.x, y: 20, "text-anchor": column.anchor, class: "head" }, column.head),
    [...column.nodes].map(([node, value]) => draw("text", { x: column.x, y: column.y.get(node) + 4, "text-anchor": column.anchor },
      node === null ? "constant" : `no. ${node + 1}: ${number(value)}`)),
  ]);
  const asked = found.asked.length > 1 ? `, asked for the ${way.way}` : "";
  const drawn = way.parts.length;
  return make("figure", {},
    make("figcaption", {}, make("h3", {}, `Where the score comes from${asked}`),
      help(`The score ${number(way.score)} is a sum of ${count(way.interactions, "part")}. `,
        `Here are the ${drawn} strongest; the others add up to ${number(way.rest)}. A part is a path: `,
        "a number that describes the subject, times one of the relation with its slice of the core, times a number of the object. ",
        "The thicker, the stronger; solid lines speak for the fact, dashed ones against it.")),
    draw("svg", { viewBox: `0 0 ${w} ${h}`, width: w, class: "graph", role: "img", "aria-label": "Paths from the subject through slices of the core to the object; the table below has their numbers" }, flows, texts),
    make("details", {}, make("summary", {}, "Show as a table"), table("Parts of the score", [
      ["Subject", (part) => `${coordinate(part.subject_coordinate)}: ${number(part.subject_value)}`],
      ["Relation (slice)", (part) => `${coordinate(part.relation_coordinate)}: ${number(part.relation_value)}`],
      ["Core", (part) => number(part.core), "number"],
      ["Object", (part) => `${coordinate(part.object_coordinate)}: ${number(part.object_value)}`],
      ["Part of the score", (part) => number(part.part), "number"],
    ], way.parts)));
}

function support(found) {
  const { facts } = found;
  return [
    make("h3", {}, "Known facts behind it"),
    help("What the model has learned from: without such a fact, the score would be lower by this much, or higher where the number is negative."),
    facts.length ? table("Known facts behind it", [
      ["Fact", (fact) => link(to("why", { s: fact.subject, r: fact.relation, o: fact.object }), triple(fact))],
      ["Says something about", (fact) => fact.of === "both" ? "both" : named(found[`${fact.of}_label`], 40)],
      ["Support", (fact) => `${fact.support > 0 ? "+" : ""}${number(fact.support)}`, "number"],
    ], facts) : make("p", {}, "There are none."),
  ];
}
