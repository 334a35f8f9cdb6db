// Asks the sidecar every second, and hands the answer to the parts of the page.

import { announce, byId } from "./dom.js";
import { ask, hasToken } from "./api.js";
import { showHeadline, showUnknown, sinceAnswer } from "./headline.js";
import { showBanners } from "./banners.js";
import { showNodes, tickNodes } from "./nodes.js";
import { freezeLocks, showLocks, tickLocks } from "./locks.js";
import { showPlots } from "./plots.js";
import { followEvents, restartEvents } from "./events.js";
import { askForToken, showScope } from "./access.js";

const EVERY_MS = 1000, SELDOM_MS = 5000, TICK_MS = 100;
let answeredAt = null;
let uptime = 0;
let timer = null;
let asking = false;
let again = false;

async function poll() {
  clearTimeout(timer);
  // One request at a time; who asks meanwhile gets a fresh one right after.
  if (asking) { again = true; return; }
  asking = true;
  const started = performance.now();
  const overview = await ask("v1/overview").catch((error) => { fail(error); return null; });
  asking = false;
  const seldom = document.hidden || document.body.dataset.link === "denied";
  const wait = again ? 0 : Math.max(50, (seldom ? SELDOM_MS : EVERY_MS) - (performance.now() - started));
  again = false;
  timer = setTimeout(poll, wait);
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
  document.body.dataset.link = "live";
  showScope(overview.scope);
  showHeadline(overview);
  showBanners(overview.banners);
  showNodes(overview, now);
  showLocks(overview, now);
  showPlots(overview);
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
}, TICK_MS);

addEventListener("token", () => { restartEvents(); poll(); });
addEventListener("freed", poll);
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
byId("free").addEventListener("close", poll);
poll();
followEvents();
