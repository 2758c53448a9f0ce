// A change as a list entry: what happened to whom, and which fields, old and new.

import { el, clock } from "./dom.js";

const words = { added: "added", updated: "changed", deleted: "deleted", synced: "synced" };
const FIELDS = 6;

/** The address of an object inside the page. */
export const objectLink = (kind, namespace, name) =>
  `#/kinds/${encodeURIComponent(kind)}/${encodeURIComponent(namespace || "-")}/${encodeURIComponent(name)}`;

/** One change. With `brief` the object is left out, because everybody knows which one it is. */
export function changeEntry(change, brief = false) {
  const entry = el("li", `change ${change.event}`);
  const head = el("div", "head", el("time", "", clock(Date.parse(change.time))), el("span", "verb", words[change.event] ?? change.event));
  if (!brief) {
    const who = el("a", "who", change.namespace ? `${change.namespace}/` : "", el("b", "", change.name));
    who.href = objectLink(change.resource, change.namespace, change.name);
    head.append(el("span", "kind", change.resource), who);
  }
  if (change.event === "deleted" && change.cause && change.cause !== "observed") {
    head.append(el("span", "kind", change.cause === "missed" ? "seen by a later list" : "left the scope"));
  }
  if (change.by?.length) head.append(el("span", "kind", `by ${authors(change.by)}`));
  else if (change.event === "deleted") head.append(el("span", "kind", "author not recorded"));
  entry.append(head);
  if (change.words) entry.append(el("div", "words", change.words));
  const fields = change.diff ?? [];
  if (fields.length) {
    const list = el("ul", "diff", ...fields.slice(0, FIELDS).map((field) => fieldLine(field, change)));
    const rest = fields.slice(FIELDS);
    if (rest.length) {
      const more = el("button", "quiet", `${rest.length} more`);
      more.type = "button";
      more.addEventListener("click", () => more.parentElement.replaceWith(...rest.map((field) => fieldLine(field, change))));
      list.append(el("li", "", more));
    }
    entry.append(list);
  }
  if (change.event === "updated" && !fields.length) entry.append(el("div", "none", "nothing but bookkeeping fields"));
  return entry;
}

/** Who changed the object, each once. */
function authors(by) {
  const names = by.map((one) => (one.subresource && one.subresource !== "status" ? `${one.manager} (${one.subresource})` : one.manager));
  return [...new Set(names)].join(", ");
}

function fieldLine(field, change) {
  const line = el("li", "", el("span", "path", field.field));
  if (field.old !== undefined && field.old !== null) line.append(el("span", "old", shown(field.old)));
  if (field.new !== undefined && field.new !== null) line.append(el("span", "new", shown(field.new)));
  // Where several managers wrote, each field says which.
  const author = change.by?.length > 1 && change.by.find((one) => one.paths.includes(field.field));
  if (author) line.append(el("span", "kind", author.manager));
  return line;
}

function shown(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 240 ? `${text.slice(0, 240)}…` : text === "" ? '""' : text;
}

/** Whether a change is meant by a filter: every word is found in kind, name, a field or a field manager, and no word after `!`. */
export function matches(change, filter) {
  if (!filter) return true;
  const fields = (change.diff ?? []).map((field) => field.field).join(" ");
  const by = (change.by ?? []).map((one) => one.manager).join(" ");
  const text = `${change.event} ${change.resource} ${change.kind} ${change.namespace ?? ""}/${change.name} ${fields} ${by}`.toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => (word.startsWith("!") ? word === "!" || !text.includes(word.slice(1)) : text.includes(word)));
}
