/** The address bar holds the view and what is asked, so that a question can be shared. */

/** What the address says: a view and its parameters. */
export function read() {
  const [view, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { view, params: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

/** The address of a view with the parameters that are not empty. The run stays, unless it is given. */
export function to(view, params = {}) {
  const run = read().params.run;
  const given = Object.entries({ run, ...params }).filter(([, value]) => value);
  return `#/${view}?${new URLSearchParams(given)}`;
}

/** Go there; the browser's history keeps where we were. */
export function go(view, params) {
  location.hash = to(view, params);
}
