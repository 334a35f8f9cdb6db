// The row of one held lock: who holds it, since when, why, and for how long.

import { el, setAttribute, setCut, setText, visible } from "./dom.js";
import { age, count, exact, iso } from "./format.js";
import { openFree } from "./free.js";
import { newCountdown, setRemaining } from "./countdown.js";
import { lockHref, titleOf } from "./route.js";

export function newRow(name) {
  const cell = (label, attributes, ...children) => el("td", { "data-label": label, ...attributes }, ...children);
  const row = {
    name: el("bdi"), here: el("span", { class: "tag", title: "Held through this sidecar" }, "here"),
    shared: el("span", { class: "tag", title: "Several clients may share it" }, "shared"), reason: el("p", { class: "why cut" }),
    owner: el("bdi", { class: "cut" }), pid: el("span", { class: "soft" }), since: el("time"),
    fence: el("span"), ...newVotes(), waiters: el("span"),
    free: el("button", { type: "button", class: "quiet free" }, "Free…"), tr: el("tr"),
  };
  row.countdown = newCountdown(row.tr);
  row.tr.append(
    el("th", { scope: "row" },
      el("div", { class: "title" }, el("a", { class: "mono name cut", href: lockHref(name) }, row.name), row.shared, row.here), row.reason),
    cell("holder", {}, row.owner, " ", row.pid),
    cell("since", { class: "num" }, row.since),
    cell("remaining", { class: "remaining" }, row.countdown.left, row.countdown.track),
    cell("fence", { class: "num fence" }, row.fence),
    cell("votes", { class: "votes" }, row.pips, row.votes),
    cell("waiting", { class: "num" }, row.waiters),
    cell("", { class: "do" }, row.free));
  row.free.addEventListener("click", () => openFree(row.view));
  setAttribute(row.tr, "data-lock", name);
  return row;
}

/** Shows the lock as the nodes reported it at `listedAt`. */
export function fillRow(row, view, listedAt, overview) {
  row.view = view;
  const holder = holderOf(view) ?? { owner: "?", foreign: false };
  setCut(row.name, titleOf(view.name));
  row.shared.hidden = view.mode !== "shared";
  row.here.hidden = !view.here;
  setCut(row.reason, holder.reason ?? "");
  setCut(row.owner, ownerOf(holder));
  setText(row.pid, holder.foreign || !holder.pid ? "" : `pid ${holder.pid}`);
  setSince(row.since, holder, overview.now);
  setText(row.fence, view.fence === null ? "–" : String(view.fence));
  setVotes(row, view);
  setAttribute(row.tr, "data-held", view.held === false ? "no" : null);
  setText(row.waiters, String(view.waiters ?? 0));
  setAttribute(row.waiters, "class", view.waiters > 0 ? "some" : "none");
  row.free.hidden = !canFree(view, overview.scope);
  setAttribute(row.free, "aria-label", `Free ${visible(titleOf(view.name))}`);
  setRemaining(row.countdown, view, listedAt);
}

/** The holder, or all readers of a shared lock as one. */
export function holderOf({ mode, holder, readers = [] }) {
  if (mode !== "shared") return holder;
  const first = Math.min(...readers.map((reader) => reader.since));
  const reason = readers.map((reader) => reader.reason).filter(Boolean).join(", ");
  return { owner: count(readers.length, "reader"), since: readers.length ? first : null, reason, foreign: false };
}

/** The holder's name; what another kind of client stored is not shown. */
export const ownerOf = (holder) => (holder.foreign ? "another kind of client" : holder.owner);

/**
 * What another kind of client stored is no token of ours, so only that client can give it back. Readers are freed one by
 * one, with their tokens, by hand.
 */
export const canFree = (view, scope) => scope === "write" && view.held !== false && view.holder?.foreign !== true && view.mode !== "shared";

export function setSince(time, holder, now) {
  const since = iso(holder?.since);
  setText(time, since ? age(now - holder.since) : "–");
  setAttribute(time, "datetime", since);
  setAttribute(time, "title", since && exact(holder.since));
}

/** One small bar per node, filled for those that the holder has. */
export const newVotes = () => ({ votes: el("span"), pips: el("span", { class: "pips", "aria-hidden": "true" }) });

export function setVotes({ votes, pips }, view) {
  setText(votes, `${view.votes}/${view.nodes}`);
  pips.style.setProperty("--nodes", String(view.nodes));
  pips.style.setProperty("--votes", String(view.votes));
}
