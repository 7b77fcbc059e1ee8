/** The page: which view is shown, of which run, in which colours. */

import { read, to } from "./address.js";
import { api, load } from "./api.js";
import { make } from "./dom.js";
import * as add from "./add.js";
import * as ask from "./ask.js";
import * as discover from "./discover.js";
import * as see from "./see.js";
import * as why from "./why.js";

const VIEWS = { ask, why, see, discover, add };

const main = document.getElementById("main");
const choice = document.getElementById("run");
let runs = [];
let current = new AbortController();
let before = null;

async function render() {
  current.abort();
  current = new AbortController();
  const { view: named, params } = read();
  const view = named in VIEWS ? named : "ask";
  const run = runs.find((one) => one.name === params.run)?.name ?? runs[0].name;
  choice.value = run;
  document.title = `${VIEWS[view].title} · ${run} · reltucker`;
  for (const anchor of document.querySelectorAll("#views a")) {
    const isHere = anchor.dataset.view === view;
    anchor.href = to(anchor.dataset.view, { run: params.run });
    if (isHere) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  main.replaceChildren();
  const { signal } = current;
  const isSame = before === view;
  const shown = VIEWS[view].show(main, { run, runs, params, signal });
  // After a choice the focus goes to what it led to; at the start it stays where it is.
  if (before !== null && !isSame) main.focus({ preventScroll: true });
  if (before !== null && !isSame) scrollTo(0, 0);
  before = view;
  await shown;
  if (isSame && !signal.aborted) main.querySelector("#results[tabindex]")?.focus();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const button = document.getElementById("theme");

function isDark() {
  const chosen = localStorage.getItem("theme");
  return chosen ? chosen === "dark" : dark.matches;
}

function colour() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  button.setAttribute("aria-pressed", String(isDark()));
  document.dispatchEvent(new Event("themechange")); // charts are drawn again
}

button.addEventListener("click", () => {
  localStorage.setItem("theme", isDark() ? "light" : "dark");
  colour();
});
dark.addEventListener("change", colour);
colour();

document.getElementById("views").append(make("ul", {}, Object.entries(VIEWS).map(([name, view]) =>
  make("li", {}, make("a", { href: to(name), "data-view": name }, view.title)))));

choice.addEventListener("change", () => {
  const { view, params } = read();
  location.hash = to(view || "ask", { ...params, run: choice.value });
});
addEventListener("hashchange", () => {
  if (runs.length && location.hash !== "#main") render();
});

await load(main, "the models", current.signal, async () => {
  runs = await api("runs");
  choice.replaceChildren(...runs.map((run) =>
    make("option", { value: run.name }, run.name === run.model ? run.name : `${run.name} (${run.model})`)));
  document.getElementById("run-choice").hidden = false;
  setTimeout(render); // once `load` has left the place
  return null;
});
