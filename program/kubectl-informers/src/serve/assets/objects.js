// The table of objects: found by name, labels or index, and kept up to date while it is looked at.

import { age, byId, el, flash, reconcile, say, whole } from "./dom.js";
import { get, kindPath } from "./api.js";
import { objectLink } from "./changes.js";

const LIMIT = 200;
// At most one request in this time, however fast things change.
const PACE = 1000;

const fields = () => ({
  kind: byId("find-kind"),
  name: byId("find-name"),
  labels: byId("find-labels"),
  index: byId("find-index"),
  value: byId("find-value"),
});

let order = "name";
let asked = 0;
let due = 0;
let lastAsked = 0;

/** Makes the form work. `chosen(kind)` is called when another kind is selected. */
export function startObjects(chosen) {
  const form = fields();
  byId("find").addEventListener("submit", (event) => event.preventDefault());
  form.kind.addEventListener("change", () => chosen(form.kind.value));
  for (const input of [form.name, form.labels, form.value]) input.addEventListener("input", () => refresh(150));
  form.index.addEventListener("change", () => {
    form.value.value = "";
    form.value.disabled = !form.index.value;
    form.value.placeholder = form.index.value ? "a value" : "choose an index";
    suggest();
    refresh(0);
  });
}

/** The kinds to choose from. */
export function showKinds(kinds) {
  const select = byId("find-kind");
  const known = [...select.options].map((option) => option.value).join();
  if (known === kinds.map((kind) => kind.id).join()) return;
  const chosen = select.value;
  select.replaceChildren(...kinds.map((kind) => new Option(kind.id, kind.id)));
  if (kinds.some((kind) => kind.id === chosen)) select.value = chosen;
}

/** The kind whose objects are shown. */
export const shownKind = () => byId("find-kind").value;

/** Shows another kind. */
export async function showKind(kind) {
  const form = fields();
  if (kind && form.kind.value !== kind) form.kind.value = kind;
  if (!form.kind.value) return;
  byId("objects").tBodies[0].replaceChildren();
  refresh(0);
  try {
    const { indexes } = await get(`${kindPath(form.kind.value)}/indexes`);
    const chosen = form.index.value;
    form.index.replaceChildren(new Option("none", ""), ...indexes.map((index) => new Option(index.name, index.name)));
    form.index.value = indexes.some((index) => index.name === chosen) ? chosen : "";
    form.value.disabled = !form.index.value;
    suggest();
  } catch {
    // The table says what is wrong; without indexes there is simply no choice.
  }
}

async function suggest() {
  const form = fields();
  const list = byId("find-values");
  list.replaceChildren();
  if (!form.index.value) return;
  try {
    const found = await get(`${kindPath(form.kind.value)}/indexes/${encodeURIComponent(form.index.value)}`);
    list.replaceChildren(...found.values.slice(0, 500).map((one) => {
      const option = new Option(`${one.count}`, one.value);
      return option;
    }));
  } catch {
    // Values can still be typed.
  }
}

/** Something changed: asks again, soon, but not more often than the pace allows. */
export function refresh(delay = 0) {
  const wait = Math.max(delay, lastAsked + PACE * (delay === 0 ? 0 : 1) - Date.now());
  clearTimeout(due);
  due = setTimeout(ask, Math.max(0, Math.min(wait, PACE)));
}

let pending = false;

/** Something of this kind changed. Does not push a request back that is due already. */
export function touched(kind) {
  if (kind !== shownKind() || pending || document.hidden) return;
  pending = true;
  setTimeout(() => {
    pending = false;
    ask();
  }, Math.max(0, lastAsked + PACE - Date.now()));
}

async function ask() {
  const form = fields();
  const kind = form.kind.value;
  if (!kind) return;
  const mine = (asked += 1);
  lastAsked = Date.now();
  const query = { view: "rows", limit: LIMIT, sort: order, name: form.name.value.trim(), labelSelector: form.labels.value.trim() };
  if (form.index.value && form.value.value) Object.assign(query, { index: form.index.value, value: form.value.value });
  try {
    const found = await get(`${kindPath(kind)}/objects`, query);
    if (mine !== asked) return;
    problem("");
    table(kind, found);
    // Columns of the server that it has not sent yet.
    if (found.late) touched(kind);
  } catch (error) {
    if (mine === asked) problem(error instanceof TypeError ? "" : error.message);
  }
}

function problem(text) {
  const line = byId("find-problem");
  line.hidden = !text;
  say(line, text);
}

const orders = { NAME: "name", CHANGES: "changes", "LAST CHANGE": "recent" };

/** The head of a column: a button where the table can be ordered by it. */
function sorter(title) {
  const text = title.toLowerCase();
  if (!orders[title]) return text;
  const button = el("button", "", text);
  button.type = "button";
  button.addEventListener("click", () => {
    order = orders[title];
    refresh();
  });
  return button;
}

function table(kind, found) {
  const shown = found.rows.length < found.total ? `${whole(found.rows.length)} of ${whole(found.total)} shown` : whole(found.total);
  say(byId("objects-count"), shown);
  const head = byId("objects").tHead.rows[0];
  const titles = [...found.columns, "CHANGES", "LAST CHANGE"];
  reconcile(head, titles, (title) => title, (title) => {
    const cell = el("th", title === "CHANGES" ? "n" : "", sorter(title));
    cell.scope = "col";
    return cell;
  }, (cell, title) => {
    if (orders[title] === order) cell.setAttribute("aria-sort", order === "name" ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  });
  const now = found.now;
  reconcile(byId("objects").tBodies[0], found.rows, (row) => row.uid || `${row.namespace}/${row.name}`, (row) => {
    const line = el("tr");
    line.dataset.changed = row.changes;
    return line;
  }, (line, row) => {
    while (line.cells.length < titles.length) line.append(el("td"));
    while (line.cells.length > titles.length) line.lastElementChild.remove();
    found.columns.forEach((column, at) => {
      const cell = line.cells[at];
      if (column === "NAME") {
        if (!cell.firstElementChild) {
          const link = el("a", "", row.name);
          link.href = objectLink(kind, row.namespace, row.name);
          cell.replaceChildren(link);
        }
      } else {
        say(cell, row.cells[at] ?? "");
      }
    });
    const base = found.columns.length;
    say(line.cells[base], row.changes ? whole(row.changes) : "");
    line.cells[base].className = "n";
    say(line.cells[base + 1], row.lastChange ? `${age((now - row.lastChange) / 1000)} ago` : "");
    if (Number(line.dataset.changed) !== row.changes) {
      line.dataset.changed = row.changes;
      flash(line);
    }
  });
}
