// Talking to the server: one stream for everything that changes, and plain requests for the rest.

/** A request for JSON. A refusal becomes an Error whose message is the server's sentence. */
export async function get(path, query = {}) {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  const address = search.size ? `${path}?${search}` : path;
  const response = await fetch(address, { headers: { accept: "application/json" }, cache: "no-store" });
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new Error(body?.error ?? `the server answered ${response.status}`);
  return body;
}

export const kindPath = (kind) => `/api/v1/kinds/${encodeURIComponent(kind)}`;

export const objectPath = (kind, namespace, name) =>
  `${kindPath(kind)}/objects/${encodeURIComponent(namespace || "-")}/${encodeURIComponent(name)}`;

// The server sends a status every second: silence for longer than this is a dead connection, whatever the browser thinks.
const SILENCE = 6000;
const PAUSES = [250, 500, 1000, 2000, 3000];

/**
 * The stream of changes and statuses, opened again whenever it breaks, from where it broke.
 * Calls `on.state("live" | "reconnecting", attempt)`, `on.hello(data)`, `on.status(data)`, `on.change(data)`,
 * `on.gap(data)`.
 */
export function follow(on) {
  let last = "";
  let attempt = 0;
  let source = null;
  let watchdog = 0;

  const open = () => {
    source = new EventSource(`/api/v1/watch?status=true${last ? `&since=${encodeURIComponent(last)}` : ""}`);
    const listen = (name, handle) =>
      source.addEventListener(name, (message) => {
        heard();
        if (message.lastEventId) last = message.lastEventId;
        handle(JSON.parse(message.data));
      });
    listen("hello", (data) => {
      attempt = 0;
      on.state("live", 0);
      on.hello(data);
    });
    listen("status", on.status);
    listen("change", on.change);
    listen("gap", on.gap);
    source.onerror = again;
    heard();
  };

  const heard = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(again, SILENCE);
  };

  // The browser would try again by itself, but stops for good after some answers, and says nothing about when.
  const again = () => {
    clearTimeout(watchdog);
    source.close();
    attempt += 1;
    on.state("reconnecting", attempt);
    setTimeout(open, PAUSES[Math.min(attempt, PAUSES.length) - 1]);
  };

  open();
}
