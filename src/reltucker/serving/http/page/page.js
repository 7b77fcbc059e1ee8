import { keepToken, runs } from "./api.js";
import { entity } from "./about.js";
import { add } from "./add.js";
import { ask } from "./ask.js";
import { discover } from "./discover.js";
import { element, problem, tell } from "./dom.js";
import { follow, go, link, state } from "./route.js";
import { see } from "./see.js";
import { why } from "./why.js";

// A view without a title is reached by links from others.
const VIEWS = {
  ask: ["Ask", ask],
  discover: ["Discover", discover],
  add: ["Add", add],
  see: ["See", see],
  about: [null, entity],
  why: [null, why],
};
const AT_ONCE = new Set(["ask", "discover", "add", "see"]);
const main = document.getElementById("main");
const choice = document.getElementById("run");
let served = [];
let turn = 0;

async function show() {
  const mine = ++turn;
  const now = state();
  const run = served.find(({ name }) => name === now.run) ?? served[0];
  choice.value = run.name;
  const name = now.view in VIEWS ? now.view : "ask";
  document.title = `${now.name ?? now.subject ?? VIEWS[name][0] ?? ""} – reltucker`.slice(0, 120);
  const links = Object.entries(VIEWS).filter(([, [title]]) => title);
  document.getElementById("views").replaceChildren(
    ...links.map(([view, [title]]) => {
      const made = link({ run: run.name, view }, title);
      if (view === name) made.setAttribute("aria-current", "page");
      return made;
    }),
  );
  tell("Loading …");
  // Each view fills a place of its own, so that a late answer to an earlier one is not seen.
  const place = element("div");
  main.replaceChildren(AT_ONCE.has(name) ? place : element("p", { class: "quiet" }, "Loading …"));
  try {
    await VIEWS[name][1](place, run, now, (wanted) => go(wanted, show), served);
    if (mine === turn) main.replaceChildren(place);
  } catch (error) {
    if (mine !== turn) return;
    if (error.status === 401) return askForToken();
    main.replaceChildren(problem(error));
  }
  if (mine === turn && document.getElementById("status").textContent === "Loading …") tell("");
}

function askForToken() {
  const input = element("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const form = element(
    "form",
    { class: "question" },
    element("div", { class: "field" }, element("label", { for: "token" }, "Token of this server"), input),
    element("div", { class: "options" }, element("button", { class: "main", type: "submit" }, "Enter")),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(input.value.trim());
    begin();
  });
  main.replaceChildren(element("h2", {}, "A token is needed"), form);
  tell("");
  input.focus();
}

let isFollowed = false;

async function begin() {
  try {
    served = await runs();
  } catch (error) {
    if (error.status === 401) return askForToken();
    main.replaceChildren(problem(error));
    return;
  }
  choice.replaceChildren(
    ...served.map(({ name, model, graph }) => element("option", { value: name }, `${name} (${model}, ${graph})`)),
  );
  document.getElementById("runs").hidden = served.length < 2;
  if (isFollowed) return show();
  isFollowed = true;
  choice.addEventListener("change", () => go({ ...state(), run: choice.value }, show));
  follow(show);
}

begin();
