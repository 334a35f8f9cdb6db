// The table of nodes: who votes, how fast, how exact its clock, what it promises, what troubles it.

import { arrange, byId, el, setAttribute, setText, visible } from "./dom.js";
import { age, millis, offset, span } from "./format.js";

const rows = new Map();
const SLOW_MS = 10, CLOCK_MS = 100, LONG_QUEUE = 50;

export function showNodes(overview, receivedAt) {
  const order = overview.nodes.map((node) => {
    const row = rows.get(node.node) ?? open(node.node);
    fill(row, node, receivedAt);
    return row;
  });
  for (const [name, row] of rows) if (!order.includes(row)) rows.delete(name);
  arrange(byId("node-rows"), order.map((it) => it.tr));
  const down = overview.nodes.filter((it) => !it.up).length;
  setText(byId("nodes-aside"), down ? `${down} down` : "all answer");
}

function open(name) {
  const cell = (label, attributes = {}) => el("td", { "data-label": label, ...attributes });
  const row = {
    name: el("span", { class: "mono" }), version: el("span", { class: "soft" }), trouble: el("p", { class: "trouble" }),
    vote: el("span", { class: "vote" }), trip: cell("round trip", { class: "num" }), clock: cell("clock", { class: "num" }),
    epoch: cell("remembers", { class: "num" }), guarantee: el("span"), quarantineEnds: null,
  };
  const head = el("th", { scope: "row" }, row.name, " ", row.version, row.trouble);
  row.tr = el("tr", {}, head, el("td", { "data-label": "vote" }, row.vote), row.trip, row.clock, row.epoch,
    el("td", { "data-label": "guarantee" }, row.guarantee));
  rows.set(name, row);
  return row;
}

function fill(row, node, receivedAt) {
  row.node = node;
  row.quarantineEnds = quarantineEnd(row.quarantineEnds, node, receivedAt);
  setAttribute(row.tr, "data-state", node.can_vote ? "votes" : node.up ? "waits" : "down");
  setAttribute(row.tr, "data-node", node.node);
  setText(row.name, visible(node.node));
  setText(row.version, node.version ? visible(node.version) : "");
  setText(row.trouble, [troubleOf(node), node.queue >= LONG_QUEUE && `${node.queue} commands wait for its answer`].filter(Boolean).join(" · "));
  // What was measured before it went down is no news.
  const { round_trip_ms: trip, clock_ahead_ms: clock, epoch_age_ms: epoch } = node.up ? node : {};
  setText(row.trip, millis(trip));
  row.trip.classList.toggle("warn", trip > SLOW_MS);
  setText(row.clock, offset(clock));
  row.clock.classList.toggle("warn", Math.abs(clock ?? 0) > CLOCK_MS);
  setText(row.epoch, epoch === null || epoch === undefined ? "–" : age(epoch));
  setAttribute(row.epoch, "title", "For how long it has forgotten nothing");
  setText(row.guarantee, visible(node.guarantee ?? ""));
  setAttribute(row.guarantee, "title", node.guarantee_text ? visible(node.guarantee_text) : null);
  setAttribute(row.guarantee, "class", node.guarantee === "unguarded" ? "warn" : null);
  tickRow(row, performance.now());
}

/** The countdown stands beside it, so a quarantine needs no number here. */
function troubleOf(node) {
  if (node.up && node.quarantine_ms > 0) return "restarted or is new, so it may have forgotten locks";
  return node.trouble ? visible(node.trouble) : "";
}

/** A quarantine only shrinks, but the sidecar tells how much was left when it last asked. A later end is another restart. */
function quarantineEnd(before, node, receivedAt) {
  if (!node.up || !(node.quarantine_ms > 0)) return null;
  const end = receivedAt + node.quarantine_ms;
  return before !== null && end - before < 5000 ? Math.min(before, end) : end;
}

/** Counts the quarantines down between two answers of the sidecar. */
export function tickNodes(now) {
  for (const row of rows.values()) tickRow(row, now);
}

function tickRow(row, now) {
  const { node } = row;
  const left = row.quarantineEnds === null ? 0 : row.quarantineEnds - now;
  const word = !node.up ? "down" : node.can_vote ? "votes" : left > 0 ? `votes in ${span(left)}` : "may not vote";
  setText(row.vote, word);
}
