// The table of held locks: who, since when, why, and how long still, counted down between two answers.

import { arrange, byId, el, reducedMotion, setAttribute, setText, visible } from "./dom.js";
import { age, exact, span } from "./format.js";
import { hasToken } from "./api.js";
import { openFree } from "./free.js";

const rows = new Map();
const body = byId("lock-rows");
let sort = stored() ?? "since";
let last = null;

// Only what is in sight moves: hundreds of moving bars would be too much for small machines.
const seen = new IntersectionObserver((changes) => {
  for (const { target, isIntersecting } of changes) {
    const row = rows.get(target.dataset.lock);
    if (!row || row.tr !== target) continue;
    row.inSight = isIntersecting;
    if (!row.frozen) move(row, performance.now());
  }
}, { rootMargin: "200px" });

export function showLocks(overview, receivedAt) {
  last = overview;
  const listed = new Set();
  for (const view of overview.locks) {
    listed.add(view.name);
    // The list is a little older than the answer.
    fill(rows.get(view.name) ?? open(view.name), view, receivedAt - (overview.locks_age_ms ?? 0), overview);
  }
  for (const [name, row] of rows) {
    if (listed.has(name)) continue;
    seen.unobserve(row.tr);
    rows.delete(name);
  }
  place();
  showHint(overview);
}

function open(name) {
  const cell = (label, attributes, ...children) => el("td", { "data-label": label, ...attributes }, ...children);
  const row = {
    name: el("bdi", { class: "mono name" }), here: el("span", { class: "tag", title: "Held through this sidecar" }, "here"), reason: el("p", { class: "why" }),
    owner: el("bdi"), pid: el("span", { class: "soft" }), since: el("time"), bar: el("i"), left: el("span", { class: "left-over" }),
    fence: el("span"), votes: el("span"), pips: el("span", { class: "pips", "aria-hidden": "true" }), waiters: el("span"),
    free: el("button", { type: "button", class: "quiet free" }, "Free…"), deadline: 0, full: 0, hold: "",
  };
  row.tr = el("tr", {},
    el("th", { scope: "row" }, row.name, " ", row.here, row.reason),
    cell("holder", {}, row.owner, " ", row.pid),
    cell("since", { class: "num" }, row.since),
    cell("remaining", { class: "remaining" }, row.left, el("span", { class: "track" }, row.bar)),
    cell("fence", { class: "num fence" }, row.fence),
    cell("votes", { class: "votes" }, row.pips, row.votes),
    cell("waiting", { class: "num" }, row.waiters),
    cell("", { class: "do" }, row.free));
  row.free.addEventListener("click", () => openFree(row.view));
  setAttribute(row.tr, "data-lock", name);
  rows.set(name, row);
  seen.observe(row.tr);
  return row;
}

function fill(row, view, listedAt, overview) {
  row.view = view;
  const holder = view.holder ?? { owner: "?", foreign: false };
  setText(row.name, visible(view.name));
  row.here.hidden = !view.here;
  setText(row.reason, holder.reason ? visible(holder.reason) : "");
  setText(row.owner, holder.foreign ? "another kind of client" : visible(holder.owner));
  setText(row.pid, holder.foreign || !holder.pid ? "" : `pid ${holder.pid}`);
  fillSince(row, holder, overview.now);
  setText(row.fence, view.fence === null ? "–" : String(view.fence));
  setText(row.votes, `${view.votes}/${view.nodes}`);
  row.pips.style.setProperty("--nodes", String(view.nodes));
  row.pips.style.setProperty("--votes", String(view.votes));
  setAttribute(row.tr, "data-held", view.held === false ? "no" : null);
  setText(row.waiters, String(view.waiters ?? 0));
  setAttribute(row.waiters, "class", view.waiters > 0 ? "some" : "none");
  // What another kind of client stored is no token of ours, so only that client can give it back.
  row.free.hidden = overview.scope !== "write" || holder.foreign === true;
  setAttribute(row.free, "aria-label", `Free ${visible(view.name)}`);
  fillDeadline(row, view, listedAt);
}

function fillSince(row, holder, now) {
  setText(row.since, holder.since ? age(now - holder.since) : "–");
  setAttribute(row.since, "datetime", holder.since ? new Date(holder.since).toISOString() : null);
  setAttribute(row.since, "title", holder.since ? exact(holder.since) : null);
}

/** Lengths of answers differ by a few milliseconds; the bar must not tremble because of that. */
const TREMBLE_MS = 150;

function fillDeadline(row, view, listedAt) {
  const hold = `${view.fence} ${view.holder?.owner} ${view.holder?.since}`;
  const deadline = listedAt + (view.remaining_ms ?? 0);
  const same = row.hold === hold;
  // The ttl is not told, so the longest remaining time that was seen is the full bar.
  row.full = Math.max(same ? row.full : 0, view.remaining_ms ?? 0);
  row.hold = hold;
  if (same && !row.frozen && Math.abs(deadline - row.deadline) < TREMBLE_MS) return;
  row.deadline = deadline;
  row.frozen = false;
  move(row, performance.now());
}

/** Lets the bar run by itself, with one animation per extension. */
function move(row, now) {
  const left = Math.max(0, row.deadline - now);
  row.motion?.cancel();
  row.motion = null;
  row.bar.style.transform = `scaleX(${row.full ? left / row.full : 0})`;
  if (row.inSight && !reducedMotion.matches && left > 0) {
    row.motion = row.bar.animate([{ transform: `scaleX(${left / row.full})` }, { transform: "scaleX(0)" }], { duration: left, fill: "forwards" });
  }
  tickRow(row, now);
}

export function tickLocks(now) {
  for (const row of rows.values()) if (row.inSight) tickRow(row, now);
}

function tickRow(row, now) {
  const left = row.deadline - now;
  const part = row.full ? left / row.full : 0;
  setText(row.left, row.view.remaining_ms === null ? "–" : left <= 0 ? "over" : span(left));
  setAttribute(row.tr, "data-level", part < 0.15 ? "low" : part < 0.33 ? "mid" : null);
  // Once in a second instead of moving.
  if (reducedMotion.matches && Math.floor(left / 1000) !== row.second) {
    row.second = Math.floor(left / 1000);
    row.bar.style.transform = `scaleX(${Math.max(0, part)})`;
  }
}

/** Stops the countdown: what is shown is what was known last. */
export function freezeLocks() {
  for (const row of rows.values()) {
    if (row.frozen) continue;
    row.frozen = true;
    if (row.motion) row.motion.pause();
  }
}

const by = {
  name: (a, b) => (a.view.name < b.view.name ? -1 : a.view.name > b.view.name ? 1 : 0),
  since: (a, b) => (b.view.holder?.since ?? 0) - (a.view.holder?.since ?? 0),
  remaining: (a, b) => a.deadline - b.deadline,
};

function place() {
  const words = byId("locks-filter").value.trim().toLowerCase();
  const matching = [...rows.values()].filter((row) => matches(row.view, words));
  const compare = by[sort.replace("-", "")];
  const sign = sort.startsWith("-") ? -1 : 1;
  matching.sort((a, b) => sign * compare(a, b) || by.name(a, b));
  arrange(body, (isUsed() ? keepPlaces(matching) : matching).map((row) => row.tr));
  showCount(matching.length, words);
}

function matches(view, words) {
  if (!words) return true;
  const { owner, reason, pid } = view.holder ?? {};
  return [view.name, owner, reason, pid].some((it) => String(it ?? "").toLowerCase().includes(words));
}

/** A row must not jump away under the pointer or the focus. */
function isUsed() {
  return body.contains(document.activeElement) || (matchMedia("(hover: hover)").matches && body.matches(":hover"));
}

function keepPlaces(wanted) {
  const places = new Map([...body.children].map((tr, i) => [tr, i]));
  const place = (row) => places.get(row.tr) ?? Infinity;
  return [...wanted].sort((a, b) => (place(a) === place(b) ? 0 : place(a) - place(b)));
}

/** A list that is older than this is worth a word. */
const OLD_MS = 5000;

function showCount(matching, words) {
  const overview = last;
  const shown = overview.locks.length;
  const parts = [];
  if (overview.locks_total > shown) parts.push(`showing ${shown} of ${overview.locks_total}, those of this sidecar first`);
  if (words) parts.push(`${matching} of ${shown} match`);
  if (!parts.length) parts.push(String(shown));
  if (overview.locks_age_ms === null) parts.push("not known yet");
  else if (overview.locks_age_ms > OLD_MS) parts.push(`the nodes told this ${age(overview.locks_age_ms)} ago`);
  else if (!overview.complete) parts.push("the list may lack some: not all nodes told theirs");
  setText(byId("locks-count"), parts.join(" · "));
  byId("locks-table").hidden = matching === 0;
  byId("locks-empty").hidden = matching > 0;
  byId("locks-example").hidden = shown > 0;
  setText(byId("locks-empty-text"), shown > 0 ? "No lock matches." : overview.locks_age_ms === null ? "The nodes have not told which locks are held." : "No lock is held.");
  setText(byId("locks-curl"), example());
}

function example() {
  const url = new URL("v1/locks/demo/acquire", document.baseURI).href;
  const auth = hasToken() ? " -H \"authorization: Bearer $TOKEN\"" : "";
  return `curl -X POST ${url}${auth} -H 'content-type: application/json' -d '{"ttl_ms": 30000, "owner": "me", "reason": "trying it"}'`;
}

function showHint(overview) {
  const hint = byId("free-hint");
  hint.hidden = overview.scope === "write" || overview.locks.length === 0;
  setText(hint, hasToken()
    ? `To free a lock by hand, use a token of scope write; this one may ${overview.scope}.`
    : "To free a lock by hand, use a token of scope write (top right), or start the sidecar with --anonymous write.");
}

function stored() {
  try {
    const value = localStorage.getItem("quorlock-sort");
    return value && by[value.replace("-", "")] ? value : null;
  } catch { return null; }
}

function setSort(value) {
  sort = value;
  try { localStorage.setItem("quorlock-sort", value); } catch { /* remembered as long as the page */ }
  showSort();
  // Asked for by hand: the rows may move.
  arrange(body, []);
  if (last) place();
}

function showSort() {
  byId("locks-sort").value = sort;
  for (const head of document.querySelectorAll("th[data-sort]")) {
    const mine = sort.replace("-", "") === head.dataset.sort;
    // The newest on top is a descending order of `since`.
    const down = sort.startsWith("-") !== (head.dataset.sort === "since");
    setAttribute(head, "aria-sort", mine ? (down ? "descending" : "ascending") : null);
  }
}

for (const head of document.querySelectorAll("th[data-sort]")) {
  head.querySelector("button").addEventListener("click", () => setSort(sort === head.dataset.sort ? `-${sort}` : head.dataset.sort));
}
byId("locks-sort").addEventListener("change", (event) => setSort(event.target.value));
byId("locks-filter").addEventListener("input", () => last && place());
byId("locks-copy").addEventListener("click", async () => {
  const button = byId("locks-copy");
  try {
    await navigator.clipboard.writeText(byId("locks-curl").textContent);
    setText(button, "Copied");
  } catch {
    // No clipboard without TLS: select it, so that the keyboard can copy.
    getSelection().selectAllChildren(byId("locks-curl"));
    setText(button, "Selected");
  }
  setTimeout(() => setText(button, "Copy"), 2000);
});
showSort();
