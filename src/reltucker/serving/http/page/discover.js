/** Discover: facts that the graph does not hold and the model believes in. */

import { go, to } from "./address.js";
import { Problem, lines, load, of, withLabels } from "./api.js";
import { NameField } from "./combobox.js";
import { triple } from "./ask.js";
import { announce, count, help, link, make, number, probability, table } from "./dom.js";

export const title = "Discover";

export async function show(root, { run, params, signal }) {
  const fields = {
    r: new NameField(run, "relation", "Relation", { value: params.r, hint: "empty for all of them" }),
    e: new NameField(run, "entity", "About this entity", { value: params.e, hint: "empty for all of them" }),
  };
  const least = make("input", { type: "number", min: 0, max: 100, step: "any", value: params.least ?? "", name: "least" });
  const top = make("select", { name: "top" },
    ["20", "100", "500"].map((n) => make("option", { selected: n === (params.top ?? "20") }, n)));
  const submit = (event) => {
    event.preventDefault();
    go("discover", { r: fields.r.value, e: fields.e.value, least: least.value, top: top.value });
  };
  const place = make("section", {});
  root.append(
    make("h1", {}, "Discover"),
    help("Facts that are not in the graph and that the model finds most likely. Look at them, accept or reject them, and save the accepted ones."),
    make("form", { class: "card", onsubmit: submit },
      make("div", { class: "triple" }, fields.r.element, fields.e.element),
      make("div", { class: "row" },
        make("label", {}, "probability of at least ", least, " %"),
        make("label", {}, "facts ", top)),
      make("button", { class: "main" }, "Discover")),
    place);
  if (!params.top) {
    place.append(make("p", {}, "Choose “Discover” to begin. On a large graph this takes a while."));
    return;
  }
  await load(place, "new facts; on a large graph this takes a while", signal, async () => {
    const body = {
      top: Number(params.top),
      ...(params.r && { relations: [params.r] }),
      ...(params.e && { entities: [params.e] }),
      ...(params.least && { min_probability: Number(params.least) / 100 }),
    };
    const facts = [];
    for await (const line of lines(of(run, "discover"), { body, signal })) {
      if (line.error) throw new Problem(422, line.error);
      if (line.fact) facts.push(line.fact);
      else if (place.firstChild) place.firstChild.textContent = `${Math.floor((100 * line.done) / line.total)} % of all possible facts looked at …`;
    }
    return review(run, await withLabels(run, facts, signal));
  });
}

const key = (fact) => JSON.stringify([fact.subject, fact.relation, fact.object]);

/** The table with a decision for each fact; decisions stay in this browser, for each run. */
function review(run, facts) {
  const store = `decisions ${run}`;
  const decisions = new Map(JSON.parse(localStorage.getItem(store) ?? "[]"));
  announce(`${count(facts.length, "new fact")}.`);
  const heading = make("h2", { id: "results", tabindex: "-1" }, count(facts.length, "new fact"));
  if (!facts.length) return [heading, make("p", {}, "There is none that fits. Ask for a lower probability or for other names.")];
  const isCalibrated = facts.some((fact) => typeof fact.probability === "number");

  const said = make("span", { class: "quiet", role: "status" });
  const save = make("button", { type: "button", class: "main", onclick: () => download(run, decisions, said) });
  const shown = make("select", {}, ["all", "undecided", "accepted", "rejected"].map((kind) => make("option", {}, kind)));
  const words = make("input", { type: "text", dir: "auto", autocomplete: "off" });
  const body = make("div", {});

  const decide = (fact, kind) => {
    if (decisions.get(key(fact)) === kind) decisions.delete(key(fact));
    else decisions.set(key(fact), kind);
    localStorage.setItem(store, JSON.stringify([...decisions]));
    tell();
  };
  const tell = () => {
    const accepted = [...decisions.values()].filter((kind) => kind === "accepted").length;
    save.textContent = `Save ${count(accepted, "accepted fact")} (TSV)`;
    save.disabled = !accepted;
    for (const button of body.querySelectorAll("button[data-fact]")) {
      button.setAttribute("aria-pressed", String(decisions.get(button.dataset.fact) === button.dataset.kind));
    }
  };
  const buttons = (fact) => make("div", { class: "row" }, [["Accept", "accepted"], ["Reject", "rejected"]].map(([text, kind]) =>
    make("button", { type: "button", "data-fact": key(fact), "data-kind": kind, "aria-pressed": "false", onclick: () => decide(fact, kind) },
      text, make("span", { class: "unseen" }, " ", triple(fact)))));
  const filter = () => {
    const text = words.value.toLowerCase();
    const names = (fact) => ["subject", "relation", "object"].flatMap((part) => [fact[part], fact[`${part}_label`]]);
    const rows = facts.filter((fact) =>
      (shown.value === "all" || (decisions.get(key(fact)) ?? "undecided") === shown.value) &&
      (!text || names(fact).some((name) => name.toLowerCase().includes(text))));
    body.replaceChildren(rows.length ? table("New facts", [
      ["Fact", (fact) => triple(fact)],
      ...(isCalibrated ? [["Probability", (fact) => probability(fact.probability)]] : []),
      ["Score", (fact) => number(fact.score), "number"],
      ["Is it true?", buttons],
      ["Reasons", (fact) => link(to("why", { s: fact.subject, r: fact.relation, o: fact.object }), "Why?", make("span", { class: "unseen" }, " ", triple(fact)))],
    ], rows) : make("p", {}, "No fact fits this filter."));
    tell();
  };
  shown.addEventListener("change", filter);
  words.addEventListener("input", filter);
  filter();
  return [
    heading,
    make("div", { class: "row" },
      make("label", {}, "Show ", shown), make("label", {}, "with the words ", words), save, said),
    body,
  ];
}

/** Accepted facts as a file of triples, made in the browser. TSV knows no quotes. */
function download(run, decisions, said) {
  const accepted = [...decisions].filter(([, kind]) => kind === "accepted").map(([fact]) => JSON.parse(fact));
  const plain = accepted.filter((fact) => !fact.some((name) => /[\t\r\n]/.test(name)));
  const text = plain.map((fact) => fact.join("\t") + "\n").join("");
  const url = URL.createObjectURL(new Blob([text], { type: "text/tab-separated-values" }));
  make("a", { href: url, download: `${run}-accepted.tsv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
  const rest = accepted.length - plain.length;
  said.textContent = rest ? `${count(rest, "fact")} left out: TSV cannot hold their tabs or line ends.` : "";
}
