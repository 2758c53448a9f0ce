// What is watched and what it costs: the table of informers, the charts, who is churning.

import { age, byId, bytes, el, plural, rate, reconcile, say, whole } from "./dom.js";
import { draw, seriesColour, smooth, spark } from "./charts.js";
import { objectLink } from "./changes.js";

const WINDOW = 300;
/** Series of every kind, one value per second. */
const series = new Map();

/** What the server remembers from before this page was opened. */
export function restoreSeries(data) {
  series.clear();
  for (const [kind, known] of Object.entries(data.kinds)) {
    series.set(kind, { events: known.events.slice(-WINDOW), lag: known.lag.slice(-WINDOW) });
  }
}

/** Shows a status. */
export function showStatus(status) {
  const words = { live: "", "catching up": status.synced ? "catching up · " : "syncing · ", disconnected: "disconnected · " };
  document.title = `${words[status.health] ?? ""}kubectl informers`;
  say(byId("cluster"), status.cluster.title);
  byId("cluster").title = status.cluster.server;
  say(byId("cost"), `${plural(status.cost.watches, "watch", "watches")} · ${bytes(status.cost.bytes)} received`);
  for (const kind of status.kinds) {
    const known = series.get(kind.id) ?? { events: [], lag: [] };
    push(known.events, kind.lastSecond);
    push(known.lag, kind.versionAge);
    series.set(kind.id, known);
  }
  informers(status.kinds);
  reconcile(byId("remarks"), status.kinds.filter((kind) => kind.remark ?? kind.detail), (kind) => kind.id,
    () => el("li"), (line, kind) => say(line, `${kind.id}: ${kind.remark ?? kind.detail}`));
  churn(status.churn);
  charts(status.kinds);
}

function push(values, value) {
  values.push(value ?? null);
  if (values.length > WINDOW) values.shift();
}

function informers(kinds) {
  reconcile(byId("informers").tBodies[0], kinds, (kind) => kind.id, create, update);

  function create(kind) {
    const link = el("a", "", kind.id);
    link.href = `#/kinds/${encodeURIComponent(kind.id)}`;
    const row = el("tr", "", el("th", "", el("i", "dot"), link), el("td", "state"));
    row.firstElementChild.scope = "row";
    row.append(el("td", "n"), el("td", "n"), el("td", "wide", el("canvas", "spark")));
    for (let cell = 0; cell < 5; cell += 1) row.append(el("td", "n"));
    return row;
  }

  function update(row, kind) {
    const cells = row.cells;
    const at = kinds.indexOf(kind);
    row.querySelector(".dot").style.background = seriesColour(at);
    const state = cells[1];
    state.dataset.state = kind.health === "disconnected" ? "waiting" : kind.state;
    if (kind.state === "listing") progress(state, kind.progress);
    else say(state, stateWord(kind));
    state.title = kind.detail ?? "";
    say(cells[2], whole(kind.objects ?? 0) + (kind.quarantined ? ` (+${kind.quarantined} unreadable)` : ""));
    say(cells[3], rate(kind.rate));
    const values = (series.get(kind.id)?.events ?? []).map((value) => value ?? 0);
    spark(row.querySelector("canvas"), values.slice(-120), seriesColour(at));
    say(cells[5], age(kind.versionAge));
    say(cells[6], bytes(kind.bytes ?? 0));
    say(cells[7], whole(kind.relists ?? 0));
    say(cells[8], whole(kind.errors ?? 0));
    cells[8].classList.toggle("bad", kind.errors > 0 && kind.state === "waiting");
    say(cells[9], whole(kind.backlog ?? 0));
    row.classList.toggle("trouble", kind.health === "disconnected");
  }
}

/** A watch that was requested is no watch yet: the server has to accept it. */
function stateWord(kind) {
  if (kind.state !== "watching") return kind.state;
  if (kind.health === "disconnected") return "reconnecting";
  return kind.synced ? "watching" : "syncing";
}

function progress(cell, done) {
  let meter = cell.querySelector("progress");
  if (!meter) {
    cell.replaceChildren((meter = document.createElement("progress")), el("span", "of"));
  }
  if (done?.total) {
    meter.max = done.total;
    meter.value = done.items;
  } else {
    meter.removeAttribute("value");
  }
  const of = done?.total ? ` of ${whole(done.total)}` : "";
  say(cell.querySelector(".of"), `${whole(done?.items ?? 0)}${of} · ${rate(done?.rate ?? 0)}/s`);
}

function churn(found) {
  const most = (list) => Math.max(1, ...list.map((one) => one.perMinute));
  const objectsMost = most(found.objects);
  reconcile(byId("churn-objects"), found.objects, (one) => `${one.resource} ${one.namespace} ${one.name}`, (one) => {
    const link = el("a", "label", el("span", "kind", one.resource), one.namespace ? `${one.namespace}/` : "", el("b", "", one.name));
    link.href = objectLink(one.resource, one.namespace, one.name);
    return bar(link);
  }, (line, one) => level(line, one.perMinute, objectsMost));
  const fieldsMost = most(found.fields);
  reconcile(byId("churn-fields"), found.fields, (one) => `${one.resource} ${one.field}`, (one) =>
    bar(el("span", "label", el("span", "kind", one.resource), el("b", "", one.field))),
  (line, one) => level(line, one.perMinute, fieldsMost));

  function bar(label) {
    return el("li", "", el("i", "fill"), label, el("span", "n"));
  }
  function level(line, value, of) {
    line.querySelector(".fill").style.width = `${(value / of) * 100}%`;
    say(line.lastElementChild, rate(value));
  }
}

let shownKinds = [];

function charts(kinds) {
  shownKinds = kinds.map((kind) => kind.id);
  reconcile(byId("legend"), kinds, (kind) => kind.id, (kind) => el("li", "", el("i", "dot"), el("span", "", kind.id)), (entry, kind) => {
    entry.firstElementChild.style.background = seriesColour(kinds.indexOf(kind));
  });
  redraw();
  const total = kinds.reduce((sum, kind) => sum + kind.rate, 0);
  byId("rate").setAttribute("aria-label", `Events per second: ${rate(total)} now`);
  const worst = Math.max(0, ...kinds.map((kind) => kind.versionAge ?? 0));
  byId("lag").setAttribute("aria-label", `Lag: ${age(worst)} at most`);
}

/** Draws the charts again: after a status, another size or another theme. */
export function redraw() {
  const lines = (what, width) =>
    shownKinds.map((kind, at) => ({ values: smooth(series.get(kind)?.[what] ?? [], width), colour: seriesColour(at) }));
  draw(byId("rate"), lines("events", 5), WINDOW);
  draw(byId("lag"), lines("lag", 1), WINDOW, "s");
}
