// The page: joins the stream of changes, the views and the keyboard.

import { age, byId, plural, say } from "./dom.js";
import { follow, get } from "./api.js";
import { changeEntry, matches } from "./changes.js";
import { redraw, restoreSeries, showStatus } from "./overview.js";
import { refresh, showKind, showKinds, shownKind, startObjects, touched } from "./objects.js";
import { leaveObject, objectTouched, showObject, startObject } from "./object.js";

const KEPT = 200;
let changes = [];
let paused = false;
let missed = 0;
let kindsKnown = false;
let shownState = "";

// ── The log of changes ──

function logChange(change) {
  changes.unshift(change);
  if (changes.length > KEPT) changes.pop();
  if (paused) {
    missed += 1;
    note();
    return;
  }
  if (!matches(change, filter())) return;
  const log = byId("log");
  log.prepend(entry(change));
  while (log.children.length > KEPT) log.lastElementChild.remove();
}

const filter = () => byId("log-filter").value.trim();

function entry(change) {
  const line = changeEntry(change);
  line.classList.add("flash");
  return line;
}

function showLog() {
  byId("log").replaceChildren(...changes.filter((change) => matches(change, filter())).map((change) => changeEntry(change)));
  note();
}

function note() {
  say(byId("log-note"), paused ? `paused, ${plural(missed, "new one")}` : "");
}

function pause() {
  paused = !paused;
  missed = 0;
  byId("pause").setAttribute("aria-pressed", String(paused));
  say(byId("pause"), paused ? "resume" : "pause");
  showLog();
}

// ── The connection ──

let connected = false;
let health = { state: "catching up", seconds: 0 };

/** The stream of this page is open, or is being opened again. */
function linkState(state, attempt) {
  connected = state === "live";
  document.body.classList.toggle("offline", !connected);
  const notice = byId("notice");
  notice.hidden = connected;
  if (!connected) {
    say(notice, attempt < 4
      ? "The connection was lost. Trying again …"
      : "kubectl informers does not answer. This page goes on by itself when it is back.");
  }
  showLink();
}

/** What is shown is as current as the worst link on the way: this page to the program, the program to the cluster. */
function showLink() {
  const link = byId("link");
  const state = connected ? health.state : "reconnecting";
  link.dataset.state = state;
  say(link, state === "disconnected" ? `disconnected from the cluster for ${age(health.seconds)}` : state);
}

async function begin(hello) {
  // Another run of the program knows nothing of the changes shown here, and this page nothing of its.
  if (hello.fresh) {
    changes = [];
    try {
      const [known, past] = await Promise.all([get("/api/v1/series"), get("/api/v1/changes", { limit: KEPT })]);
      restoreSeries(known);
      // Those that came while we asked are kept; they are in both, or newer.
      changes = [...changes.filter((change) => change.number > past.last), ...past.changes].slice(0, KEPT);
      showLog();
    } catch {
      // Either the stream breaks, too, and starts over, or this was bad luck.
      setTimeout(() => document.body.classList.contains("offline") || begin(hello), 1000);
    }
  }
  refresh();
  route();
}

function status(data) {
  health = { state: data.health, seconds: data.disconnectedSeconds ?? 0 };
  showLink();
  showKinds(data.kinds);
  showStatus(data);
  // What a first list brings is no change, and yet the table must show it.
  const shown = data.kinds.find((kind) => kind.id === shownKind());
  const state = `${shown?.id} ${shown?.objects} ${shown?.synced}`;
  if (state !== shownState) touched(shown?.id);
  shownState = state;
  if (!kindsKnown) {
    kindsKnown = true;
    if (!route()) showKind(shownKind());
  }
}

// ── Where the page is ──

function route() {
  const parts = location.hash.split("/").slice(1).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  const [place, kind, namespace, ...name] = parts;
  if (place !== "kinds" || !kind) {
    leaveObject();
    return false;
  }
  if (kindsKnown && shownKind() !== kind) showKind(kind);
  if (name.length) showObject(kind, namespace, name.join("/"));
  else leaveObject();
  return kindsKnown && shownKind() === kind && byId("objects").tBodies[0].rows.length > 0;
}

// ── Light and dark ──

const themes = ["system", "light", "dark"];

function theme(name) {
  document.documentElement.dataset.theme = name;
  say(byId("theme"), `theme: ${name}`);
  try {
    localStorage.setItem("theme", name);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  redraw();
}

function nextTheme() {
  const at = themes.indexOf(document.documentElement.dataset.theme);
  theme(themes[(at + 1) % themes.length]);
}

function storedTheme() {
  try {
    const name = localStorage.getItem("theme");
    return themes.includes(name) ? name : "system";
  } catch {
    return "system";
  }
}

// ── The keyboard ──

const keys = {
  "/": () => byId("find-name").focus(),
  f: () => byId("log-filter").focus(),
  p: pause,
  t: nextTheme,
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "Escape" && typing) typing.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || byId("object").open) return;
  const action = keys[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});

theme(storedTheme());
byId("theme").addEventListener("click", nextTheme);
byId("pause").addEventListener("click", pause);
byId("log-filter").addEventListener("input", showLog);
window.addEventListener("hashchange", route);
window.addEventListener("resize", redraw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refresh();
});
startObjects((kind) => {
  location.hash = `#/kinds/${encodeURIComponent(kind)}`;
});
startObject();
follow({
  state: linkState,
  hello: begin,
  status,
  change(change) {
    logChange(change);
    touched(change.resource);
    objectTouched(change);
  },
  gap() {
    begin({ fresh: true });
  },
});
