// Requests to the server's own API; a token is asked for once, and kept for this tab.

const TOKEN = "reltucker-token";

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function call(path, options = {}) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...options.headers };
  if (token) headers.authorization = `Bearer ${token}`;
  let reply;
  try {
    reply = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server cannot be reached.");
  }
  if (!reply.ok) {
    const body = await reply.json().catch(() => ({}));
    throw new Problem(reply.status, body.detail ?? `The server said ${reply.status}.`);
  }
  return reply;
}

export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

function address(run, route, query) {
  const parts = new URLSearchParams(Object.entries(query).filter(([, value]) => value != null));
  return `api/runs/${encodeURIComponent(run)}/${route}${parts.size ? `?${parts}` : ""}`;
}

export async function runs() {
  return (await call("api/runs")).json();
}

export async function get(run, route, query = {}, signal = undefined) {
  return (await call(address(run, route, query), { signal })).json();
}

export async function post(run, route, document) {
  const options = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(document),
  };
  return (await call(address(run, route, {}), options)).json();
}

// The documents of an answer that comes line by line.
export async function* lines(run, route, document) {
  const reply = await call(address(run, route, {}), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(document),
  });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      const whole = (rest + (value ?? "")).split("\n");
      rest = whole.pop();
      for (const line of whole) yield JSON.parse(line);
      if (done) return;
    }
  } finally {
    reader.cancel(); // the server stops when nobody listens
  }
}
