/** A field that proposes names and labels while one types: the combobox pattern of ARIA. */

import { api, of } from "./api.js";
import { count, make, named, shorten } from "./dom.js";

const WAIT = 100; // milliseconds without a key before the server is asked
let made = 0;

/** A labelled field for a name of a kind ("entity" or "relation") of a run. */
export class NameField {
  constructor(run, kind, label, { hint, value = "", onchoose } = {}) {
    const id = `name-${++made}`;
    this.run = run;
    this.kind = kind;
    this.onchoose = onchoose;
    this.options = [];
    this.active = -1;
    this.list = make("ul", { id: `${id}-list`, role: "listbox", "aria-label": label, hidden: true });
    this.message = make("span", { class: "quiet", role: "status" });
    this.input = make("input", {
      id, type: "text", role: "combobox", autocomplete: "off", spellcheck: "false", dir: "auto",
      "aria-expanded": "false", "aria-autocomplete": "list", "aria-controls": `${id}-list`,
      "aria-describedby": hint ? `${id}-hint` : null,
      oninput: () => this.#typed(), onfocus: () => this.#typed(0), onclick: () => this.#typed(0),
      onkeydown: (event) => this.#key(event), onblur: () => this.#close(),
    });
    this.element = make("div", { class: "field" },
      make("label", { for: id }, label), this.input, this.list, this.message,
      hint ? make("span", { class: "hint", id: `${id}-hint` }, hint) : null);
    this.set(value);
  }

  /** What was chosen, or else what stands there. */
  get value() {
    return this.chosen && this.chosen.shown === this.input.value ? this.chosen.name : this.input.value.trim();
  }

  /** Show a name; its label follows when the server has told it. */
  set(name) {
    this.chosen = null;
    this.input.value = name;
    if (!name) return;
    this.#choose({ name, label: name }, false);
    api(of(this.run, "labels"), { body: { kind: this.kind, names: [name] } })
      .then(({ labels: [label] }) => this.value === name && this.#choose({ name, label }, false))
      .catch(() => {}); // the name stays as it is
  }

  #choose(option, byUser = true) {
    // One line of at most so many characters; the whole name is kept beside it.
    const shown = shorten(option.label.replace(/\s+/g, " "), 200);
    this.chosen = { name: option.name, shown };
    this.input.value = shown;
    this.#close();
    if (byUser) this.onchoose?.(option.name);
  }

  #typed(wait = WAIT) {
    clearTimeout(this.timer);
    this.request?.abort(); // an answer to what stood there before is too late
    this.list.setAttribute("aria-busy", "true");
    this.timer = setTimeout(() => this.#ask(), wait);
  }

  async #ask() {
    this.request?.abort();
    this.request = new AbortController();
    const { signal } = this.request;
    // What was chosen is no beginning of anything: begin with the most frequent names again.
    const prefix = this.chosen?.shown === this.input.value ? "" : this.input.value.trim();
    try {
      const found = await api(of(this.run, "names", { prefix, kind: this.kind }), { signal });
      if (!signal.aborted && document.activeElement === this.input) this.#open(found);
    } catch (error) {
      if (!signal.aborted) this.message.textContent = error.message;
    }
    if (!signal.aborted) this.list.removeAttribute("aria-busy");
  }

  #open(options) {
    const marked = this.options[this.active]?.name; // stays marked where it is proposed again
    this.options = options;
    this.list.replaceChildren(...options.map((option, place) =>
      make("li", {
        id: `${this.list.id}-${place}`, role: "option", "aria-selected": "false",
        onmousedown: (event) => { event.preventDefault(); this.#choose(option); },
      },
      named(option.label, 100),
      option.label === option.name ? null : make("span", { class: "id" }, named(option.name, 40)),
      make("span", { class: "quiet" }, count(option.count, "fact")))));
    this.list.hidden = !options.length;
    this.input.setAttribute("aria-expanded", String(options.length > 0));
    this.#mark(options.findIndex((option) => option.name === marked));
    this.message.textContent = options.length ? "" : "No name begins like this.";
  }

  #close() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.list.hidden = true;
    this.list.removeAttribute("aria-busy");
    this.active = -1;
    this.message.textContent = "";
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.list.hidden) {
      this.#typed(0);
    } else if (step) {
      const places = this.options.length + 1; // the field itself is one of them
      this.#mark(((this.active + 1 + step + places) % places) - 1);
    } else if (event.key === "Enter" && !this.list.hidden && this.active >= 0) {
      this.#choose(this.options[this.active]);
    } else if (event.key === "Escape" && !this.list.hidden) {
      this.#close();
    } else {
      return;
    }
    event.preventDefault();
  }

  #mark(place) {
    this.active = place;
    for (const [n, option] of [...this.list.children].entries()) {
      option.setAttribute("aria-selected", String(n === place));
      if (n === place) option.scrollIntoView({ block: "nearest" });
    }
    if (place < 0) this.input.removeAttribute("aria-activedescendant");
    else this.input.setAttribute("aria-activedescendant", `${this.list.id}-${place}`);
  }
}
