// One object: what it is now, and what happened to it since the program started.

import { age, byId, clock, el, plural, say } from "./dom.js";
import { get, objectPath } from "./api.js";
import { changeEntry } from "./changes.js";

let current = null;

const same = (one, other) => one && one.kind === other.kind && one.namespace === other.namespace && one.name === other.name;

/** Makes the dialog work. */
export function startObject() {
  const dialog = byId("object");
  byId("object-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => {
    if (!current) return;
    const kind = current.kind;
    current = null;
    location.hash = `#/kinds/${encodeURIComponent(kind)}`;
  });
  byId("object-copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(byId("object-body").textContent);
      say(byId("object-copy"), "copied");
    } catch {
      say(byId("object-copy"), "select and copy by hand");
    }
    setTimeout(() => say(byId("object-copy"), "copy"), 2000);
  });
}

/** Opens the view of an object, or brings it up to date. */
export async function showObject(kind, namespace, name) {
  const wanted = { kind, namespace: namespace === "-" ? "" : namespace, name };
  const another = !same(current, wanted);
  current = wanted;
  const dialog = byId("object");
  if (!dialog.open) dialog.showModal();
  if (another) {
    say(byId("object-title"), "");
    byId("object-title").append(el("span", "kind", kind), wanted.namespace ? `${wanted.namespace}/` : "", el("b", "", name));
    say(byId("object-facts"), "");
    byId("history").replaceChildren();
    byId("object-body").replaceChildren();
  }
  try {
    const found = await get(objectPath(kind, wanted.namespace, name));
    if (same(current, wanted)) show(found);
  } catch (error) {
    if (same(current, wanted)) say(byId("object-facts"), error.message);
  }
}

function show(found) {
  const facts = [];
  if (found.deleted) facts.push("deleted: this is what it was last");
  if (found.stale) facts.push("stale: its newest version cannot be read");
  if (found.object) {
    const meta = found.object.metadata ?? {};
    if (meta.creationTimestamp) facts.push(`created ${age((found.now - Date.parse(meta.creationTimestamp)) / 1000)} ago`);
    if (meta.resourceVersion) facts.push(`version ${meta.resourceVersion}`);
  }
  facts.push(`${plural(found.changes, "change")} since ${clock(found.since)}`);
  say(byId("object-facts"), facts.join(" · "));
  byId("object").classList.toggle("gone", Boolean(found.deleted));
  const history = byId("history");
  history.replaceChildren(...found.history.map((change) => changeEntry(change, true)));
  if (!found.history.length) history.append(el("li", "none", "nothing has changed yet"));
  say(byId("history-note"), found.forgotten ? `${plural(found.forgotten, "older one")} not kept` : "");
  paint(byId("object-body"), found.object);
}

/** JSON in colours, as text nodes. */
function paint(into, value) {
  const text = value === null || value === undefined ? "" : JSON.stringify(value, null, 2);
  if (into.textContent === text) return;
  const parts = [];
  const token = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*|true|false|null)/g;
  let from = 0;
  for (const found of text.matchAll(token)) {
    parts.push(text.slice(from, found.index));
    const [whole, string, colon] = found;
    parts.push(el("span", colon ? "key" : string ? "string" : "literal", string ?? whole));
    if (colon) parts.push(colon);
    from = found.index + whole.length;
  }
  parts.push(text.slice(from));
  into.replaceChildren(...parts);
}

/** Something changed: if it is the object that is looked at, it is shown again. */
export function objectTouched(change) {
  const changed = { kind: change.resource, namespace: change.namespace ?? "", name: change.name };
  if (same(current, changed)) showObject(changed.kind, changed.namespace, changed.name);
}

/** Closes the view, without going anywhere. */
export function leaveObject() {
  current = null;
  if (byId("object").open) byId("object").close();
}
