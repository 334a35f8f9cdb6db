// The headline: can locks be taken right now, and how much may still fail?

import { byId, el, setAttribute, setText, visible } from "./dom.js";
import { age, count, span, whole } from "./format.js";

const COUNTS = [
  ["locks_total", "locks held", "Locks that a majority of the nodes says are held, by anybody"],
  ["waiters_total", "waiting", "Calls of this sidecar that wait for a lock"],
  ["holds", "holds", "Locks that this sidecar keeps alive while a client stays connected"],
  ["sessions", "sessions", "Locks that clients of this sidecar hold by token"],
  ["connections", "connections", "Open connections to this sidecar"],
];

/** What the state of the nodes means: `state` is ok, risk or stopped. */
export function judge(overview) {
  const { nodes, quorum } = overview;
  const voters = nodes.filter((it) => it.can_vote).length;
  const votes = `${voters} of ${count(nodes.length, "node")} ${voters === 1 ? "votes" : "vote"}, ${quorum} ${quorum === 1 ? "is" : "are"} needed`;
  if (voters < quorum) return { state: "stopped", title: "No lock can be taken", detail: `${votes}. ${comeback(nodes, quorum - voters)}` };
  const spare = voters - quorum;
  if (spare > 0) return { state: "ok", title: "Locks can be taken", detail: `${votes}. ${count(spare, "more may", "more may")} fail.` };
  if (voters === nodes.length) return { state: "ok", title: "Locks can be taken", detail: `${votes}. None may fail.` };
  return { state: "risk", title: "Locks can be taken, with none to spare", detail: `${votes}.` };
}

/** When quarantined nodes will be enough again. */
function comeback(nodes, missing) {
  const waits = nodes.filter((it) => it.up && it.quarantine_ms > 0).map((it) => it.quarantine_ms).sort((a, b) => a - b);
  if (waits.length >= missing) return `Again in about ${age(waits[missing - 1])}, when restarted nodes may vote.`;
  const rest = missing - waits.length;
  return `At least ${count(rest, "node")} must come back.`;
}

const RANK = { votes: 0, waits: 1, down: 2 };
const stateOf = (node) => (node.can_vote ? "votes" : node.up ? "waits" : "down");

export function showHeadline(overview) {
  const verdict = judge(overview);
  byId("headline").dataset.state = verdict.state;
  setText(byId("verdict"), verdict.title);
  setText(byId("verdict-detail"), verdict.detail);
  showBallots(overview);
  showCounts(overview);
  setText(byId("version"), `version ${overview.version}`);
  setText(byId("uptime"), `up ${age(overview.uptime_ms)}`);
  const voters = overview.nodes.filter((it) => it.can_vote).length;
  const tally = `${voters}/${overview.nodes.length}`;
  showTab(verdict.state, verdict.state === "stopped" ? `no quorum ${tally}` : tally);
}

function showBallots({ nodes, quorum }) {
  const box = byId("ballots");
  const sorted = [...nodes].sort((a, b) => RANK[stateOf(a)] - RANK[stateOf(b)]);
  const look = JSON.stringify([quorum, sorted.map((it) => [it.node, stateOf(it)])]);
  if (box.dataset.look === look) return;
  box.dataset.look = look;
  const bars = sorted.map((it) => el("i", { "data-state": stateOf(it), title: `${visible(it.node)}: ${stateOf(it)}` }));
  const need = el("span", { class: "need" }, el("span", {}, `quorum ${quorum}`));
  need.style.gridColumn = `1 / span ${quorum}`;
  box.style.setProperty("--nodes", String(nodes.length));
  box.replaceChildren(...bars, need);
  const voters = nodes.filter((it) => it.can_vote).length;
  setAttribute(box, "aria-label", `${voters} of ${nodes.length} nodes vote, the quorum is ${quorum}`);
}

function showCounts(overview) {
  const box = byId("counts");
  if (!box.firstChild) {
    box.append(...COUNTS.map(([key, label, title]) =>
      el("div", { title }, el("dd", { "data-key": key }), el("dt", {}, label))));
  }
  for (const [key] of COUNTS) setText(box.querySelector(`[data-key=${key}]`), whole(overview[key]));
}

const COLORS = { ok: "%2317806d", risk: "%23d08a00", stopped: "%23cf3a2f", unknown: "%23808a87" };

let subject = "";

/** What the tab is about, before its state: a lock, or nothing. */
export function setSubject(text) {
  subject = text;
}

/** Title and icon of the tab show the state, too. */
export function showTab(state, title) {
  setText(document.querySelector("title"), `${subject && `${subject} · `}${title} · quorlock`);
  const bar = (x, y) => `<rect x='${x}' y='${y}' width='6' height='${24 - y}' fill='${COLORS[state]}'/>`;
  const svg = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'>${bar(0, 2)}${bar(9, 2)}${bar(18, state === "ok" ? 2 : 14)}</svg>`;
  setAttribute(byId("icon"), "href", `data:image/svg+xml,${svg}`);
}

/** The sidecar is silent: nothing is known. */
export function showUnknown(title, detail) {
  byId("headline").dataset.state = "unknown";
  setText(byId("verdict"), title);
  setText(byId("verdict-detail"), detail);
  showTab("unknown", "no answer");
}

/** How long since the last answer, in words. */
export const sinceAnswer = (ms) => (ms === null ? "It has not answered yet." : `What you see below is ${span(ms)} old.`);
