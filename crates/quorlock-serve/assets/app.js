// Asks the sidecar every second, and hands the answer to the parts of the page.

import { announce, byId, visible } from "./dom.js";
import { ask, hasToken } from "./api.js";
import { setSubject, showHeadline, showUnknown, sinceAnswer } from "./headline.js";
import { showBanners } from "./banners.js";
import { showNodes, tickNodes } from "./nodes.js";
import { focusLock, freezeLocks, locksQuery, showLocks, tickLocks } from "./locks.js";
import { freezeLock, openLock, refreshLock, tickLock } from "./lockpage.js";
import { lockIn, titleOf, topicOf } from "./route.js";
import { showPlots } from "./plots.js";
import { followEvents, restartEvents, showEventsOf } from "./events.js";
import { askForToken, showScope } from "./access.js";

const EVERY_MS = 1000, SELDOM_MS = 5000, TICK_MS = 100;
/** Characters of a lock's name in the title of the tab. */
const MAX_IN_TITLE = 60;
let answeredAt = null;
let uptime = 0;
let timer = null;
let asking = null;
let latest = null;
/** The lock whose own page is shown: null for the list, undefined for an address that names none. */
let lock = null;

async function poll() {
  clearTimeout(timer);
  // One request at a time: the answer to an older question is no longer wanted.
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  const started = performance.now();
  // A lock's own page shows no list.
  const query = lock === null ? locksQuery() : "limit=1";
  const outcome = await ask(`v1/overview?${query}`, { signal: mine.signal }).then((overview) => ({ overview }), (error) => ({ error }));
  if (asking !== mine) return;
  asking = null;
  const { overview, error } = outcome;
  if (error) fail(error);
  const seldom = document.hidden || document.body.dataset.link === "denied";
  timer = setTimeout(poll, Math.max(50, (seldom ? SELDOM_MS : EVERY_MS) - (performance.now() - started)));
  // Last, so that a fault in drawing does not end the asking.
  if (overview) show(overview);
}

function show(overview) {
  const now = performance.now();
  if (document.body.dataset.link === "stale") announce("The sidecar answers again.");
  // It started anew, so it counts its events from the start.
  if (overview.uptime_ms < uptime) restartEvents({ keep: true });
  uptime = overview.uptime_ms;
  answeredAt = now;
  latest = overview;
  document.body.dataset.link = "live";
  showScope(overview.scope);
  showHeadline(overview);
  showBanners(overview.banners);
  showNodes(overview, now);
  if (lock === null) showLocks(overview, now);
  else refreshLock(overview);
  showPlots(overview);
}

let listScroll = 0;

/** Shows what the address names: the list, or one lock. */
function route(isFirst = false) {
  const before = lock;
  lock = lockIn(location.hash);
  if (!isFirst && lock === before) return;
  if (before === null) listScroll = scrollY;
  document.body.dataset.view = lock === null ? "list" : "lock";
  setSubject(visible(titleOf(lock ?? "")).slice(0, MAX_IN_TITLE));
  openLock(lock);
  showEventsOf(lock ? topicOf(lock) : null);
  if (latest) refreshLock(latest);
  poll();
  if (isFirst) return;
  scrollTo(0, lock === null ? listScroll : 0);
  if (lock === null) focusLock(before);
  else byId("lock-title").focus({ preventScroll: true });
}

function fail(error) {
  if (error.status === 401) {
    document.body.dataset.link = "denied";
    askForToken();
    showUnknown("A token is needed", hasToken() ? "The one that you gave is not known here." : "Whoever runs this sidecar can give you one.");
    return;
  }
  const age = answeredAt === null ? null : performance.now() - answeredAt;
  const refused = error.status !== undefined;
  document.body.dataset.link = "stale";
  freezeLocks();
  freezeLock();
  showUnknown(refused ? "The sidecar refuses to answer" : "The sidecar does not answer", sinceAnswer(age));
  showBanners([{
    code: refused ? "refused" : "unreachable", severity: "critical",
    title: refused ? `The sidecar answered ${error.status}` : "No connection to the sidecar",
    text: refused ? error.message : "Whether locks can be taken is not known here. Locks themselves live on the nodes, and other clients go on.",
    action: refused ? "" : "See whether quorlock serve runs and whether this address reaches it. The page asks again every second.",
  }]);
}

setInterval(() => {
  if (document.body.dataset.link !== "live") return;
  const now = performance.now();
  tickNodes(now);
  tickLocks(now);
  tickLock(now);
}, TICK_MS);

addEventListener("token", () => { restartEvents(); poll(); });
addEventListener("freed", poll);
addEventListener("locks", poll);
addEventListener("hashchange", () => route());
// The list and the lock scroll each for itself, see `route`.
history.scrollRestoration = "manual";
byId("skip").addEventListener("click", (event) => {
  // The address names what is shown, so it must not become that of a section.
  event.preventDefault();
  byId(lock === null ? "locks" : "lock").focus();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
byId("free").addEventListener("close", poll);
route(true);
followEvents();
