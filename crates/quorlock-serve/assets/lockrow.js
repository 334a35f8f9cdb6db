// The row of one held lock: who, since when, why, and how long still, counted down between two answers.

import { el, reducedMotion, setAttribute, setText, visible } from "./dom.js";
import { age, exact, iso, span } from "./format.js";
import { openFree } from "./free.js";

const rowOf = new WeakMap();

// Only what is in sight moves: hundreds of moving bars would be too much for small machines.
const sight = new IntersectionObserver((changes) => {
  for (const { target, isIntersecting } of changes) {
    const row = rowOf.get(target);
    row.inSight = isIntersecting;
    if (!row.frozen) move(row, performance.now());
  }
}, { rootMargin: "200px" });

export function newRow(name) {
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
  rowOf.set(row.tr, row);
  sight.observe(row.tr);
  return row;
}

/** Shows the lock as the nodes told it at `listedAt`. */
export function fillRow(row, view, listedAt, overview) {
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
  const since = iso(holder.since);
  setText(row.since, since ? age(now - holder.since) : "–");
  setAttribute(row.since, "datetime", since);
  setAttribute(row.since, "title", since && exact(holder.since));
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
  showLeft(row, now);
}

/** Counts down, if anybody can see it. */
export function tickRow(row, now) {
  if (row.inSight) showLeft(row, now);
}

function showLeft(row, now) {
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
export function freezeRow(row) {
  if (row.frozen) return;
  row.frozen = true;
  row.motion?.pause();
}

export function dropRow(row) {
  sight.unobserve(row.tr);
}
