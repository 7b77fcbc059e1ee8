// A text field with names to choose from (the ARIA pattern of a combobox with a list).

import { get } from "./api.js";
import { element, named } from "./dom.js";

const PAUSE = 80;
let count = 0;

export function typeahead({ title, run, kind, value, placeholder }) {
  const id = `field-${++count}`;
  const input = element("input", {
    id,
    role: "combobox",
    "aria-autocomplete": "list",
    "aria-controls": `${id}-list`,
    "aria-expanded": "false",
    autocomplete: "off",
    spellcheck: "false",
    dir: "auto",
    placeholder,
    value,
  });
  const list = element("ul", { id: `${id}-list`, class: "choices", role: "listbox", "aria-label": title, hidden: true });
  let timer, request, found = [], chosen = -1;

  function close() {
    clearTimeout(timer);
    request?.abort();
    list.hidden = true;
    list.replaceChildren();
    found = [];
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function take(place) {
    input.value = found[place].name;
    close();
  }

  function mark(place) {
    chosen = place;
    [...list.children].forEach((item, number) => {
      item.setAttribute("aria-selected", String(number === chosen));
      if (number === chosen) {
        input.setAttribute("aria-activedescendant", item.id);
        item.scrollIntoView({ block: "nearest" });
      }
    });
  }

  function show(names) {
    close();
    const isWhole = names.length === 1 && names[0].name === input.value;
    if (!names.length || isWhole || document.activeElement !== input) return;
    found = names;
    list.append(
      ...names.map((row, number) => {
        const label = row.label === row.name ? named(row.name) : element("span", { class: "name" }, named(row.label), " ", element("small", { dir: "auto" }, row.name.slice(0, 60)));
        const item = element("li", { id: `${id}-${number}`, role: "option", "aria-selected": "false" }, label, element("span", { class: "count" }, row.count.toLocaleString("en")));
        item.addEventListener("mousedown", (event) => {
          event.preventDefault();
          take(number);
        });
        return item;
      }),
    );
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
  }

  function search() {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      request?.abort();
      request = new AbortController();
      try {
        show(await get(run, "names", { prefix: input.value, kind, limit: 12 }, request.signal));
      } catch {
        // Nothing to choose from; asking will tell what is wrong.
      }
    }, PAUSE);
  }

  input.addEventListener("input", search);
  input.addEventListener("focus", () => input.select());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!found.length) search();
      else mark((chosen + (event.key === "ArrowDown" ? 1 : -1) + found.length) % found.length);
    } else if (event.key === "Enter" && chosen >= 0) {
      event.preventDefault();
      take(chosen);
    } else if (event.key === "Escape") close();
  });
  return { input, field: element("div", { class: "field" }, element("label", { for: id }, title), input, list) };
}
