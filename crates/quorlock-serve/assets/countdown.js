// The remaining time of one lock: a number and a bar that run down between two answers of the sidecar.

import { el, reducedMotion, setAttribute, setText } from "./dom.js";
import { span } from "./format.js";

const countdownOf = new WeakMap();

// Only what is in sight moves: hundreds of moving bars would be too much for small machines.
const sight = new IntersectionObserver((changes) => {
  for (const { target, isIntersecting } of changes) {
    const it = countdownOf.get(target);
    it.inSight = isIntersecting;
    if (!it.frozen) move(it, performance.now());
  }
}, { rootMargin: "200px" });

/** A countdown that marks `box`, the element around it, when little time is left. */
export function newCountdown(box) {
  const it = { box, bar: el("i"), left: el("span", { class: "left-over" }), deadline: 0, full: 0, hold: "", remaining: null };
  it.track = el("span", { class: "track" }, it.bar);
  countdownOf.set(box, it);
  sight.observe(box);
  return it;
}

/** Lengths of answers differ by a few milliseconds; the bar must not tremble because of that. */
const TREMBLE_MS = 150;

/** Sets the remaining time of a lock as it was at `listedAt`. */
export function setRemaining(it, view, listedAt) {
  const hold = `${view.fence} ${view.holder?.owner} ${view.holder?.since}`;
  const deadline = listedAt + (view.remaining_ms ?? 0);
  const same = it.hold === hold && (it.remaining === null) === (view.remaining_ms === null);
  // No answer has the ttl, so the longest remaining time that was seen is the full bar.
  it.full = Math.max(same ? it.full : 0, view.remaining_ms ?? 0);
  it.hold = hold;
  it.remaining = view.remaining_ms;
  if (same && !it.frozen && Math.abs(deadline - it.deadline) < TREMBLE_MS) return;
  it.deadline = deadline;
  it.frozen = false;
  move(it, performance.now());
}

/** Lets the bar run by itself, with one animation per extension. */
function move(it, now) {
  const left = Math.max(0, it.deadline - now);
  it.motion?.cancel();
  it.motion = null;
  it.bar.style.transform = `scaleX(${it.full ? left / it.full : 0})`;
  if (it.inSight && !reducedMotion.matches && left > 0) {
    it.motion = it.bar.animate([{ transform: `scaleX(${left / it.full})` }, { transform: "scaleX(0)" }], { duration: left, fill: "forwards" });
  }
  showLeft(it, now);
}

/** Counts down, if it is in sight. */
export function tick(it, now) {
  if (it.inSight && !it.frozen) showLeft(it, now);
}

function showLeft(it, now) {
  const left = it.deadline - now;
  const part = it.full ? left / it.full : 0;
  setText(it.left, it.remaining === null ? "–" : left <= 0 ? "over" : span(left));
  setAttribute(it.box, "data-level", it.remaining === null ? null : part < 0.15 ? "low" : part < 0.33 ? "mid" : null);
  // Once in a second instead of moving.
  if (reducedMotion.matches && Math.floor(left / 1000) !== it.second) {
    it.second = Math.floor(left / 1000);
    it.bar.style.transform = `scaleX(${Math.max(0, part)})`;
  }
}

/** Stops the countdown: what is shown is what was known last. */
export function freeze(it) {
  if (it.frozen) return;
  it.frozen = true;
  it.motion?.pause();
}

export function drop(it) {
  sight.unobserve(it.box);
}
