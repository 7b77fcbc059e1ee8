// The address bar holds the state: every question has an address that can be shared.

import { element } from "./dom.js";

export function state() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

export function addressOf(wanted) {
  const kept = Object.entries(wanted).filter(([, value]) => value != null && value !== "");
  return `?${new URLSearchParams(kept)}`;
}

export function link(wanted, ...children) {
  return element("a", { href: addressOf(wanted) }, ...children);
}

// Calls `show` now, and whenever the state changes by a link of the page, by `go` or by going back.
export function follow(show) {
  addEventListener("popstate", show);
  document.addEventListener("click", (event) => {
    const target = event.target.closest("a[href^='?']");
    if (!target || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.pushState(null, "", target.getAttribute("href"));
    show();
  });
  show();
}

export function go(wanted, show) {
  history.pushState(null, "", addressOf(wanted));
  show();
}
