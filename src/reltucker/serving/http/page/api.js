/** Requests to the server, and what is shown while they last or when they fail. */

import { make } from "./dom.js";

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** JSON from a path of the API; with a body it is sent by POST. */
export async function api(path, { body, signal } = {}) {
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
  const document = await answer.json().catch(() => null);
  if (answer.ok) return document;
  throw new Problem(answer.status, document?.detail ?? `The server answered with ${answer.status}.`);
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
