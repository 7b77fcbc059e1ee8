/** Requests to the server, and what is shown while they last or when they fail. */

import { make } from "./dom.js";

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** The answer to a request; with a body it is sent by POST. */
async function request(path, { body, signal }) {
  const headers = { accept: "application/json" };
  const token = sessionStorage.getItem("token");
  if (token) headers.authorization = `Bearer ${token}`;
  if (body) headers["content-type"] = "application/json";
  let answer;
  try {
    const method = body ? "POST" : "GET";
    answer = await fetch(`api/${path}`, { method, headers, signal, body: body && JSON.stringify(body) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "The server does not answer. Is `reltucker serve` still running?");
  }
  if (answer.ok) return answer;
  const document = await answer.json().catch(() => null);
  throw new Problem(answer.status, document?.detail ?? `The server answered with ${answer.status}.`);
}

/** JSON from a path of the API. */
export async function api(path, options = {}) {
  return (await request(path, options)).json();
}

/** Lines of JSON from a path of the API, each as soon as it comes. */
export async function* lines(path, options) {
  const answer = await request(path, options);
  let rest = "";
  for await (const text of chunks(answer.body.pipeThrough(new TextDecoderStream()))) {
    const parts = (rest + text).split("\n");
    rest = parts.pop();
    yield* parts.map((part) => JSON.parse(part));
  }
}

async function* chunks(stream) { // not every browser can loop over a stream itself
  const reader = stream.getReader();
  for (let { value, done } = await reader.read(); !done; { value, done } = await reader.read()) yield value;
}

/** The facts with the labels of their names. */
export async function withLabels(run, facts, signal) {
  const names = { entity: new Set(), relation: new Set() };
  for (const fact of facts) {
    for (const place of ["subject", "relation", "object"]) {
      if (fact[place]) names[place === "relation" ? place : "entity"].add(fact[place]);
    }
  }
  const found = {};
  for (const [kind, some] of Object.entries(names)) {
    const given = [...some];
    const { labels } = given.length ? await api(of(run, "labels"), { body: { kind, names: given }, signal }) : { labels: [] };
    found[kind] = new Map(given.map((name, n) => [name, labels[n]]));
  }
  return facts.map((fact) => ({
    ...fact,
    subject_label: found.entity.get(fact.subject),
    relation_label: found.relation.get(fact.relation),
    object_label: found.entity.get(fact.object),
  }));
}

/** The path of something of a run, with a query of what is not empty. */
export function of(run, what, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given).toString();
  return `runs/${encodeURIComponent(run)}/${what}${text && "?" + text}`;
}

/** A sentence about what went wrong, and what to do: ask for the token, or try again. */
export function problem(error, retry) {
  if (!(error instanceof Problem)) console.error(error);
  const sentence = error instanceof Problem ? error.message : "This page has made a mistake.";
  const box = make("div", { class: "problem", role: "alert" }, make("p", { dir: "auto" }, sentence));
  if (error.status === 401) box.append(tokenForm(retry));
  else if (retry && error.status !== 422) box.append(make("button", { type: "button", onclick: retry }, "Try again"));
  return box;
}

function tokenForm(retry) {
  const field = make("input", { type: "password", autocomplete: "off", required: true });
  const submit = (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", field.value.trim());
    retry();
  };
  return make("form", { class: "row", onsubmit: submit },
    make("label", {}, "Token ", field), make("button", {}, "Use it"));
}

/** Show in `place` what `work` makes, with a sentence while it lasts or when it fails. */
export async function load(place, what, signal, work) {
  place.setAttribute("aria-busy", "true");
  place.replaceChildren(make("p", { class: "quiet loading" }, `Loading ${what} …`));
  try {
    const made = await work();
    if (signal.aborted) return;
    place.replaceChildren(...[made].flat(Infinity).filter(Boolean));
  } catch (error) {
    if (signal.aborted) return;
    place.replaceChildren(problem(error, () => load(place, what, signal, work)));
  }
  place.removeAttribute("aria-busy");
}
