// The table of held locks: which are shown, in which order, and what stands there if there are none.

import { arrange, byId, setAttribute, setText } from "./dom.js";
import { age } from "./format.js";
import { hasToken } from "./api.js";
import { dropRow, fillRow, freezeRow, newRow, tickRow } from "./lockrow.js";

const rows = new Map();
const body = byId("lock-rows");
let sort = stored() ?? "since";
let last = null;

export function showLocks(overview, receivedAt) {
  last = overview;
  const listed = new Set();
  for (const view of overview.locks) {
    listed.add(view.name);
    // The list is a little older than the answer.
    fillRow(rowFor(view.name), view, receivedAt - (overview.locks_age_ms ?? 0), overview);
  }
  for (const [name, row] of rows) {
    if (listed.has(name)) continue;
    dropRow(row);
    rows.delete(name);
  }
  place();
  showHint(overview);
}

function rowFor(name) {
  if (!rows.has(name)) rows.set(name, newRow(name));
  return rows.get(name);
}

export function tickLocks(now) {
  for (const row of rows.values()) tickRow(row, now);
}

/** Stops all countdowns. */
export function freezeLocks() {
  for (const row of rows.values()) freezeRow(row);
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
  else if (!overview.complete) parts.push("the list may lack some");
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
