// Banners: what is wrong, what happens because of it, what to do. The most severe first.

import { announce, arrange, byId, el, setProse } from "./dom.js";

const RANK = { critical: 0, warning: 1, info: 2 };
const rank = (it) => RANK[it.severity] ?? 1;
const shown = new Map();

/** @param {Array<{code: string, severity: string, title: string, text: string, action: string}>} banners */
export function showBanners(banners) {
  const sorted = [...banners].sort((a, b) => rank(a) - rank(b));
  const keys = keysOf(sorted);
  for (const [key, box] of shown) {
    if (keys.includes(key)) continue;
    announce(`Over: ${box.querySelector("h2").textContent}`);
    shown.delete(key);
  }
  sorted.forEach((banner, i) => fill(shown.get(keys[i]) ?? open(keys[i], banner), banner));
  arrange(byId("banners"), keys.map((key) => shown.get(key)));
}

/** A banner stays the same while its code and severity do; one code can come for several nodes. */
function keysOf(banners) {
  const times = new Map();
  return banners.map(({ code, severity }) => {
    const n = (times.get(code) ?? 0) + 1;
    times.set(code, n);
    return `${severity} ${code} ${n}`;
  });
}

function open(key, banner) {
  const box = el("article", { class: "banner", "data-severity": banner.severity, "data-code": banner.code },
    el("h2"), el("p", { class: "text" }), el("p", { class: "action" }));
  shown.set(key, box);
  // Told once, not again whenever a countdown in the text moves.
  announce(`${banner.title}. ${banner.text} ${banner.action}`, banner.severity === "critical");
  return box;
}

function fill(box, banner) {
  setProse(box.querySelector("h2"), banner.title);
  setProse(box.querySelector(".text"), banner.text ?? "");
  setProse(box.querySelector(".action"), banner.action ?? "");
}
