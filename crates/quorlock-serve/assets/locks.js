// The table of held locks: the sidecar searches, sorts and pages, this shows one page of them.

import { arrange, byId, setAttribute, setText } from "./dom.js";
import { age, whole } from "./format.js";
import { hasToken } from "./api.js";
import { drop, freeze, tick } from "./countdown.js";
import { fillRow, newRow } from "./lockrow.js";

/** Locks of one page. */
const PAGE = 100;
/** How long the typing must rest before the sidecar is asked. */
const REST_MS = 200;
/** A list that is older than this is worth a word. */
const OLD_MS = 5000;
const ORDERS = ["name", "since", "remaining"];

const rows = new Map();
const body = byId("lock-rows");
let sort = stored() ?? "-since";
/** Where each page begins, up to the one that is shown. The first begins at the start. */
let pages = [];
let last = null;

/** The sidecar searches for at most so many bytes, which is the longest name. */
const MAX_BYTES = 512;
const encoder = new TextEncoder();

function words() {
  const text = byId("locks-filter").value.trim();
  return text.slice(0, encoder.encodeInto(text, new Uint8Array(MAX_BYTES)).read);
}

/** What to ask of the sidecar for the page of locks that is wanted now. */
export function locksQuery() {
  const query = new URLSearchParams({ sort, limit: String(PAGE) });
  if (words()) query.set("q", words());
  if (pages.length) query.set("after", pages.at(-1));
  return query;
}

const wanted = () => {
  setAttribute(byId("locks"), "aria-busy", "true");
  dispatchEvent(new Event("locks"));
};

export function showLocks(overview, receivedAt) {
  last = overview;
  setAttribute(byId("locks"), "aria-busy", null);
  // All locks of this page and behind it have ended.
  if (pages.length && !overview.locks.length) {
    pages = [];
    return wanted();
  }
  const listed = new Set(overview.locks.map((view) => view.name));
  for (const view of overview.locks) {
    // The list is a little older than the answer.
    fillRow(rowFor(view.name), view, receivedAt - (overview.locks_age_ms ?? 0), overview);
  }
  for (const [name, row] of rows) {
    if (listed.has(name)) continue;
    drop(row.countdown);
    rows.delete(name);
  }
  const order = overview.locks.map((view) => rows.get(view.name));
  arrange(body, (isUsed() ? keepPlaces(order) : order).map((row) => row.tr));
  showCount(overview);
  showPager(overview);
  showHint(overview);
}

function rowFor(name) {
  if (!rows.has(name)) rows.set(name, newRow(name));
  return rows.get(name);
}

export function tickLocks(now) {
  for (const row of rows.values()) tick(row.countdown, now);
}

/** Stops all countdowns. */
export function freezeLocks() {
  for (const row of rows.values()) freeze(row.countdown);
}

/** Back from a lock's own page: the keyboard goes on where it was. */
export function focusLock(name) {
  rows.get(name)?.tr.querySelector("a").focus({ preventScroll: true });
}

/** A row must not jump away under the pointer or the focus of the keyboard. */
function isUsed() {
  return body.querySelector(":focus-visible") !== null || (matchMedia("(hover: hover)").matches && body.matches(":hover"));
}

function keepPlaces(order) {
  const places = new Map([...body.children].map((tr, i) => [tr, i]));
  const place = (row) => places.get(row.tr) ?? Infinity;
  return [...order].sort((a, b) => (place(a) === place(b) ? 0 : place(a) - place(b)));
}

function showCount(overview) {
  const { locks_total: total, locks_matched: matched, locks_age_ms: old } = overview;
  const all = `${overview.complete || old === null ? "" : "at least "}${whole(total)}`;
  const parts = [words() ? `${whole(matched)} of ${all} match` : all];
  if (old === null) parts.push("not known yet");
  else if (old > OLD_MS) parts.push(`as the nodes reported ${age(old)} ago`);
  else if (!overview.complete) parts.push("some may be missing");
  setText(byId("locks-count"), parts.join(" · "));
  byId("locks-table").hidden = matched === 0;
  byId("locks-empty").hidden = matched > 0;
  byId("locks-example").hidden = total > 0;
  setText(byId("locks-empty-text"), total > 0 ? "No lock matches." : old === null ? "The nodes have not reported which locks are held." : "No lock is held.");
  setText(byId("locks-curl"), example());
}

function showPager(overview) {
  const { locks_before: before, locks_matched: matched, locks_next: next } = overview;
  byId("locks-pager").hidden = before === 0 && next === null;
  setText(byId("locks-range"), `${whole(before + 1)}–${whole(before + overview.locks.length)} of ${whole(matched)}`);
  byId("locks-first").disabled = !pages.length;
  byId("locks-previous").disabled = !pages.length;
  byId("locks-next").disabled = next === null;
}

function turnTo(wantedPages) {
  pages = wantedPages;
  // Other rows come: those that stay need not keep their place.
  arrange(body, []);
  byId("locks").scrollIntoView({ block: "start" });
  wanted();
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
    const value = localStorage.getItem("quorlock-order");
    return value && ORDERS.includes(value.replace("-", "")) ? value : null;
  } catch { return null; }
}

function setSort(value) {
  sort = value;
  try { localStorage.setItem("quorlock-order", value); } catch { /* remembered as long as the page */ }
  showSort();
  pages = [];
  // Asked for by hand: the rows may move.
  arrange(body, []);
  wanted();
}

function showSort() {
  byId("locks-sort").value = sort;
  for (const head of document.querySelectorAll("th[data-sort]")) {
    const mine = sort.replace("-", "") === head.dataset.sort;
    setAttribute(head, "aria-sort", mine ? (sort.startsWith("-") ? "descending" : "ascending") : null);
  }
}

for (const head of document.querySelectorAll("th[data-sort]")) {
  // The newest first is what people want first.
  const [first, second] = head.dataset.sort === "since" ? ["-since", "since"] : [head.dataset.sort, `-${head.dataset.sort}`];
  head.querySelector("button").addEventListener("click", () => setSort(sort === first ? second : first));
}
byId("locks-sort").addEventListener("change", (event) => setSort(event.target.value));
let resting = null;
byId("locks-filter").addEventListener("input", () => {
  pages = [];
  setText(byId("locks-count"), "searching …");
  clearTimeout(resting);
  resting = setTimeout(wanted, REST_MS);
});
byId("locks-first").addEventListener("click", () => turnTo([]));
byId("locks-previous").addEventListener("click", () => turnTo(pages.slice(0, -1)));
byId("locks-next").addEventListener("click", () => last?.locks_next && turnTo([...pages, last.locks_next]));
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
