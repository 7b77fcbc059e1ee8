/** What is around an entity, as a small graph: known and predicted facts. */

import { to } from "./address.js";
import { api, load, of } from "./api.js";
import { badge, count, draw, help, labelled, link, make, named, number, probability, shorten, table } from "./dom.js";

const NARROW = 620;
const SHOWN = { known: 14, predicted: 6 };

/** Show the neighbourhood of an entity in a place of the page, with questions to go on with. */
export async function around(place, run, name, signal) {
  await load(place, "what is around it", signal, async () => {
    const found = await api(of(run, "neighbourhood", { name, ...SHOWN }), { signal });
    const facts = [
      ...found.known.map((fact) => ({ ...fact, known: true })),
      ...found.predicted.map((fact) => ({ ...fact, known: false })),
    ];
    const relations = [...new Map(facts.map((fact) =>
      [fact.relation + (fact.subject === found.name), fact])).values()];
    return [
      make("h2", { id: "results", tabindex: "-1" }, "Around ", labelled(found.label, found.name)),
      make("p", {}, `The graph holds ${count(found.facts, "fact")} about it; `,
        `${found.known.length} of them and ${count(found.predicted.length, "prediction")} are shown. Choose a name to go on.`),
      facts.length ? picture(found, facts, place.clientWidth) : make("p", {}, "There is nothing to draw."),
      facts.length ? legend() : null,
      make("h3", {}, "Ask further"),
      make("ul", { class: "chips" }, relations.map((fact) => {
        const isSubject = fact.subject === found.name;
        const params = isSubject ? { s: found.name, r: fact.relation } : { r: fact.relation, o: found.name };
        const parts = [named(found.label, 30), " · ", named(fact.relation_label, 40), " · ", "?"];
        return make("li", {}, link(to("ask", params), isSubject ? parts : parts.reverse()));
      })),
      await alike(run, found.name, signal),
      make("details", {}, make("summary", {}, "Show as a table"), factTable(facts)),
    ];
  });
}

/** Entities about which the model says alike. */
async function alike(run, name, signal) {
  const found = await api(of(run, "similar", { name, top: 8 }), { signal });
  if (!found.length) return null;
  return [
    make("h3", {}, "Similar"),
    help("Entities about which the model gives similar answers."),
    make("ul", { class: "chips" }, found.map((row) =>
      make("li", {}, link(to("ask", { s: row.name }), named(row.label, 40))))),
  ];
}

export function factTable(facts) {
  const part = (place) => [place[0].toUpperCase() + place.slice(1),
    (fact) => labelled(fact[`${place}_label`], fact[place])];
  const hasProbability = facts.some((fact) => typeof fact.probability === "number");
  return table("Facts", [
    part("subject"), part("relation"), part("object"),
    ["In the graph?", (fact) => badge(fact.known)],
    ["Score", (fact) => number(fact.score), "number"],
    ...(hasProbability ? [["Probability", (fact) => probability(fact.probability)]] : []),
  ], facts);
}

function legend() {
  const line = (kind, text) => [
    draw("svg", { width: 46, height: 12, class: "graph", "aria-hidden": "true" },
      draw("path", { d: "M2 6H44", class: `edge ${kind}` })), ` ${text}`];
  return make("p", { class: "quiet legend" },
    make("span", {}, line("known", "known: the graph says so")),
    make("span", {}, line("predicted", "predicted: the model expects it")));
}

/** The graph: round the entity where there is room, below it where there is not. */
function picture(centre, facts, width) {
  // All facts between the same two entities share an edge for either kind.
  const groups = new Map();
  for (const fact of facts) {
    const isSubject = fact.subject === centre.name;
    const other = isSubject ? fact.object : fact.subject;
    const key = JSON.stringify([other, fact.known]);
    const label = isSubject ? fact.object_label : fact.subject_label;
    if (!groups.has(key)) groups.set(key, { other, label, known: fact.known, relations: [] });
    groups.get(key).relations.push([shorten(fact.relation_label, 24), isSubject]);
  }
  const edges = [...groups.values()];
  const isNarrow = width < NARROW;
  const w = Math.max(300, Math.min(width || 900, 980));
  const h = isNarrow ? 60 + 46 * edges.length : Math.max(360, 150 + 26 * edges.length);
  const root = isNarrow ? { x: 24, y: 24 } : { x: w / 2, y: h / 2 };
  const spots = edges.map((edge, n) => {
    if (isNarrow) return { x: 60, y: 70 + 46 * n };
    const angle = (2 * Math.PI * (n + 0.5)) / edges.length - Math.PI / 2;
    return { x: w / 2 + (w / 2 - 170) * Math.cos(angle), y: h / 2 + (h / 2 - 30) * Math.sin(angle) };
  });
  const lines = [];
  const parts = edges.map((edge, n) => {
    const { x, y } = spots[n];
    const kind = edge.known ? "known" : "predicted";
    const isLeft = !isNarrow && x < w / 2 - 1;
    const path = isNarrow ? `M${root.x} ${root.y}V${y}H${x}` : `M${root.x} ${root.y}L${x} ${y}`;
    // An arrow points from the subject to the object of the fact, as they stand in the picture.
    const arrow = ([name, isSubject]) => isSubject === isLeft ? `← ${name}` : `${name} →`;
    const relation = shorten(edge.relations.map(arrow).join(", "), isNarrow ? 34 : 40);
    const share = n % 2 ? 0.52 : 0.72; // neighbours' texts keep apart
    const middle = { x: root.x + share * (x - root.x), y: root.y + share * (y - root.y) - 4 };
    const text = (at, content, more) =>
      draw("text", { x: at.x, y: at.y, ...more }, draw("tspan", {}, content));
    lines.push(draw("path", { d: path, class: `edge ${kind}` }));
    return [
      isNarrow
        ? text({ x: x + 12, y: y + 19 }, relation, { class: "relation" })
        : text(middle, relation, { class: "relation", "text-anchor": "middle" }),
      draw("a", { href: to("ask", { s: edge.other }) },
        draw("title", {}, `${shorten(edge.label, 200)}: ${relation} (${kind})`),
        draw("circle", { cx: x, cy: y, r: 6, class: `node ${kind}` }),
        text({ x: x + (isLeft ? -12 : 12), y: y + 4 }, shorten(edge.label, 26),
          { class: "node-name", "text-anchor": isLeft ? "end" : "start" })),
    ];
  });
  return draw("svg", {
    viewBox: `0 0 ${w} ${h}`, class: "graph", role: "group",
    "aria-label": `Graph around ${shorten(centre.label, 200)}; the table below has the same facts`,
  },
  lines.reverse(), // below all texts, and known ones above predicted ones
  parts,
  draw("circle", { cx: root.x, cy: root.y, r: 10, class: "node centre" }),
  draw("text", {
    x: root.x + (isNarrow ? 18 : 0), y: root.y + (isNarrow ? 5 : -16), class: "node-name centre",
    "text-anchor": isNarrow ? "start" : "middle",
  }, shorten(centre.label, 36)));
}
