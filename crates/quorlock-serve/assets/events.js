// The stream of events: newest on top, paused and filtered at will, bounded.

import { arrange, byId, el, setAttribute, setProse, setText, visible } from "./dom.js";
import { clock, exact, iso } from "./format.js";
import { follow } from "./api.js";
import { lockHref } from "./route.js";

const MOST = 500;
const LOSS = 2, WARNING = 1, ROUTINE = 0;
const SEVERITY = {
  lost: LOSS, extend_failed: WARNING, node_down: WARNING, node_failed: WARNING, node_quarantined: WARNING,
  node_replicated: WARNING, clock_skew: WARNING, clock_jumped: WARNING, gap: WARNING,
};
const WORDS = {
  gave_up: "gave up", lease_expired: "lease expired", extend_failed: "extend failed", given_away: "given away", mode_changed: "mode changed", node_up: "node up", node_down: "node down",
  node_quarantined: "quarantined", node_failed: "node failed", node_replicated: "has replicas", clock_skew: "clock skew", clock_jumped: "clock jumped",
};

// That somebody else holds a lock, or that a caller went away, is what locks are for.
const EXPECTED = ["held", "cancelled"];
// What was dropped before this page first asked is no fault of it.
const isBeginning = (kind, data) => kind === "gap" && data.after === 0;
const severityOf = (kind, data) => (isBeginning(kind, data) ? ROUTINE : kind === "gave_up" && !EXPECTED.includes(data.reason) ? WARNING : SEVERITY[kind] ?? ROUTINE);

let events = [];
let waiting = [];
let paused = false;
let after = 0;
let stop = null;
let dirty = false;
let lock = null;
const list = byId("event-rows");

/** Follows the sidecar's events for ever; comes back by itself when the stream breaks. */
export async function followEvents() {
  for (let pause = 500; ; pause = Math.min(pause * 2, 5000)) {
    await visibleTab();
    stop = new AbortController();
    const all = byId("events-all").checked ? "&all=true" : "";
    try {
      const one = lock === null ? "" : `&lock=${encodeURIComponent(lock)}`;
      await follow(`v1/events?after=${after}${all}${one}`, () => { pause = 500; state("live"); }, take, stop.signal);
    } catch { /* said below; the headline says why */ }
    if (!stop.signal.aborted) {
      state("interrupted");
      await new Promise((wake) => { setTimeout(wake, pause); stop.signal.addEventListener("abort", wake); });
    }
  }
}

/** Browsers have six connections to a place for all tabs together, so a hidden tab gives its own back. */
function visibleTab() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((wake) => document.addEventListener("visibilitychange", wake, { once: true })).then(visibleTab);
}

document.addEventListener("visibilitychange", () => { if (document.hidden) stop?.abort(); });

/** Reads anew from the first event: for another token, for other kinds, or from a sidecar that started anew. */
export function restartEvents({ keep = false } = {}) {
  after = 0;
  if (!keep) {
    events = [];
    waiting = [];
    redraw();
  }
  stop?.abort();
}

/** Reads only the events of this lock; of all locks and nodes if it is null. */
export function showEventsOf(name) {
  if (name === lock) return;
  lock = name;
  setText(byId("events-title"), lock === null ? "Events" : "Events of this lock");
  restartEvents();
}

let link = "";
function state(text = link) {
  link = text;
  setText(byId("events-state"), paused ? (waiting.length ? `paused, ${waiting.length} new` : "paused") : link);
  setAttribute(byId("events"), "data-state", paused ? "paused" : link);
}

function take({ id, kind, data }) {
  // Not the larger one: a sidecar that started anew counts from the start.
  if (id !== null && Number.isFinite(id)) after = id;
  if (data.seq !== undefined && [...waiting, ...events].some((it) => it.seq === data.seq && it.at === data.at)) return;
  const text = isBeginning(kind, data) ? "older events are not kept" : kind === "gap" ? "this page was too slow for some events" : data.text ?? "";
  const event = { ...data, kind, text, at: data.at ?? Date.now(), severity: severityOf(kind, data) };
  (paused ? waiting : events).unshift(event);
  if (waiting.length > MOST) waiting.length = MOST;
  if (events.length > MOST) events.length = MOST;
  if (paused) state();
  else redraw();
}

/** Draws once per frame, however many events arrive. */
function redraw() {
  if (dirty) return;
  dirty = true;
  requestAnimationFrame(() => {
    dirty = false;
    const words = byId("events-filter").value.trim().toLowerCase();
    const least = Number(byId("events-severity").value);
    arrange(list, events.filter((it) => it.severity >= least && matches(it, words)).map(row));
    setAttribute(list, "data-empty", list.firstChild ? null : events.length ? "nothing matches" : "nothing happened yet");
  });
}

const matches = (event, words) => !words || [event.lock, event.node, event.text, event.kind].some((it) => String(it ?? "").toLowerCase().includes(words));

function row(event) {
  event.row ??= draw(event);
  return event.row;
}

function draw(event) {
  const text = el("bdi", { class: "text" });
  setProse(text, event.text, event.lock === undefined ? undefined : { name: event.lock, href: lockHref(event.lock) });
  return el("li", { "data-severity": ["info", "warning", "critical"][event.severity], "data-kind": event.kind },
    el("time", { datetime: iso(event.at) ?? "", title: exact(event.at) }, clock(event.at)),
    el("span", { class: "kind" }, WORDS[event.kind] ?? visible(event.kind)),
    text);
}

byId("events-pause").addEventListener("click", () => {
  paused = !paused;
  setAttribute(byId("events-pause"), "aria-pressed", String(paused));
  setText(byId("events-pause"), paused ? "Resume" : "Pause");
  if (!paused) {
    events = [...waiting, ...events].slice(0, MOST);
    waiting = [];
    redraw();
  }
  state();
});
byId("events-filter").addEventListener("input", redraw);
byId("events-severity").addEventListener("change", redraw);
byId("events-all").addEventListener("change", () => restartEvents());
redraw();
