// One lock's own page: who holds it, since when, why and until when, and what each node stores.

import { arrange, byId, el, setAttribute, setText, visible } from "./dom.js";
import { count, exact, iso, span } from "./format.js";
import { ask } from "./api.js";
import { openFree } from "./free.js";
import { freeze, newCountdown, setRemaining, tick } from "./countdown.js";
import { canFree, holderOf, newVotes, ownerOf, setSince, setVotes } from "./lockrow.js";
import { titleOf } from "./route.js";

const facts = byId("lock-facts");
const countdown = newCountdown(facts);
const shown = {
  owner: el("bdi"), pid: el("span", { class: "soft" }), since: el("time"), moment: el("span", { class: "soft" }), reason: el("bdi"),
  readers: el("ul", { class: "readers" }), fence: el("span"), ...newVotes(), quorum: el("span", { class: "soft" }), waiters: el("span"), here: el("span"),
};
const FACTS = [
  ["Holder", "holder", shown.owner, " ", shown.pid],
  ["Readers", "readers", shown.readers],
  ["Since", "since", shown.since, " ", shown.moment],
  ["Reason", "reason", shown.reason],
  ["Remaining", "remaining", countdown.left, countdown.track],
  ["Fence or term", "fence", shown.fence],
  ["Votes", "votes", shown.pips, shown.votes, " ", shown.quorum],
  ["Waiting", "waiting", shown.waiters],
  ["Held through", "here", shown.here],
];
facts.append(...FACTS.map(([label, key, ...content]) => el("div", { "data-fact": key }, el("dt", {}, label), el("dd", { class: key }, ...content))));

let name = null;
let view = null;
let scope = "";
let asking = null;

/** Shows the page of this lock; undefined is an address that names none. Null closes the page. */
export function openLock(wanted) {
  asking?.abort();
  asking = null;
  name = wanted ?? null;
  view = null;
  byId("lock").hidden = wanted === null;
  setText(byId("lock-title"), wanted === undefined ? "No lock" : visible(titleOf(wanted ?? "")));
  showNothing();
  if (wanted === undefined) say("bad", "The address of this page does not name a lock: its name must be percent-encoded UTF-8.");
  else if (name !== null) say("asking", "Asking the nodes …");
}

/** Asks about the lock again, unless the last question is still open. */
export async function refreshLock(overview) {
  scope = overview.scope;
  if (name === null || asking) return;
  const mine = new AbortController();
  asking = mine;
  const outcome = await ask(`v1/locks/${encodeURIComponent(name)}`, { signal: mine.signal }).then((answer) => [show, answer], (error) => [fail, error]);
  // Another lock was opened meanwhile.
  if (asking !== mine) return;
  asking = null;
  outcome[0](outcome[1], overview.now);
}

function show(answer, now) {
  view = answer;
  const { held, mode, readers } = answer;
  const holder = holderOf(answer);
  say(held ? "held" : "free", summary(answer));
  facts.hidden = false;
  for (const fact of facts.children) fact.hidden = isHidden(fact.dataset.fact, held, mode);
  shown.readers.replaceChildren(...readers.map(({ owner, pid, fence }) => el("li", {}, el("bdi", {}, visible(owner)), ` pid ${pid}, fence ${fence}`)));
  setText(shown.owner, holder ? visible(ownerOf(holder)) : "–");
  setText(shown.pid, holder?.pid && !holder.foreign ? `pid ${holder.pid}` : "");
  setSince(shown.since, holder, now);
  setText(shown.moment, iso(holder?.since) ? exact(holder.since) : "");
  setText(shown.reason, holder?.reason ? visible(holder.reason) : "–");
  setText(shown.fence, answer.fence === null ? "–" : String(answer.fence));
  setVotes(shown, answer);
  setText(shown.quorum, `${answer.quorum} are needed`);
  setText(shown.waiters, answer.waiters === 1 ? "1 call of this sidecar" : `${answer.waiters} calls of this sidecar`);
  setText(shown.here, answer.here ? "this sidecar" : "another sidecar or program");
  setRemaining(countdown, answer, performance.now());
  byId("lock-free").hidden = !canFree(answer, scope);
  showStores((answer.node_views ?? []).map(storeOf));
}

function isHidden(fact, held, mode) {
  if (fact === "readers") return mode !== "shared";
  if (fact === "fence" && mode === "shared") return true;
  return !held && !["votes", "waiting"].includes(fact);
}

function summary({ held, mode, quorum, node_views: stores = [] }) {
  if (held) return mode === "shared" ? "Held, shared" : "Held";
  const some = stores.filter((it) => ["holds", "other", "foreign"].includes(it.state)).length;
  if (some) return `Free: ${some} of ${stores.length} nodes store a holder, but none has the quorum of ${quorum}.`;
  return "Free: no client holds it. A name that was never used looks the same.";
}

function fail(error) {
  // The headline shows that the sidecar does not answer or wants a token.
  if (error.status === undefined || error.status === 401) return freeze(countdown);
  view = null;
  showNothing();
  const isName = error.status === 400 || error.status === 404;
  say(isName ? "bad" : "unknown", isName ? `No lock can be looked at under this name: ${visible(error.message)}` : visible(error.message));
  const SAID = { yes: "answers", no: "refuses", failed: "no answer" };
  showStores((error.body.nodes ?? []).map((it) => ({ node: it.node, word: SAID[it.said] ?? it.said, state: it.said === "failed" ? "down" : "free", cause: it.cause })));
}

function showNothing() {
  facts.hidden = true;
  byId("lock-free").hidden = true;
  showStores([]);
}

function say(state, text) {
  setAttribute(byId("lock"), "data-state", state);
  setText(byId("lock-state"), text);
}

const STATES = {
  holds: ["votes", "holds it"], free: ["free", "free"], other: ["waits", "another holder"],
  foreign: ["waits", "another kind of client"], failed: ["down", "no answer"], unknown: ["waits", "unknown"],
};

function storeOf({ node, state, remaining_ms: remaining, holder, readers, cause }) {
  const [look, word] = STATES[state] ?? STATES.unknown;
  return { node, state: look, word, remaining, holder: readers ? { owner: count(readers, "reader") } : holder, cause };
}

/** Drawn anew for each answer: there is nothing in it that has the focus. */
function showStores(stores) {
  byId("lock-nodes").hidden = stores.length === 0;
  arrange(byId("lock-stores"), stores.map(({ node, state, word, remaining, holder, cause }) => {
    const owner = holder ? visible(ownerOf(holder)) : "–";
    return el("tr", { "data-state": state, "data-node": node },
      el("th", { scope: "row" }, el("span", { class: "mono" }, visible(node)), el("p", { class: "trouble" }, cause ? visible(cause) : "")),
      el("td", { "data-label": "stores" }, el("span", { class: "vote" }, word)),
      el("td", { "data-label": "remaining", class: "num" }, remaining === null || remaining === undefined ? "–" : span(remaining)),
      el("td", { "data-label": "holder", class: "who" }, el("bdi", { class: "cut", title: owner }, owner)));
  }));
}

export function tickLock(now) {
  if (view) tick(countdown, now);
}

export const freezeLock = () => freeze(countdown);

byId("lock-free").addEventListener("click", () => view && openFree(view));
