// The theme: as the system wants, light, or dark. Runs before the first paint, so it is no module.
"use strict";
(() => {
  const order = ["auto", "light", "dark"];
  const root = document.documentElement;
  const stored = () => {
    // Storage can be forbidden; then the choice lasts as long as the page.
    try { return localStorage.getItem("quorlock-theme"); } catch { return null; }
  };
  const keep = (theme) => {
    try { localStorage.setItem("quorlock-theme", theme); } catch { /* see above */ }
  };
  const show = (theme) => {
    if (theme === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", theme);
    const button = document.getElementById("theme");
    if (button) button.textContent = `Theme: ${theme}`;
    window.dispatchEvent(new Event("themechange"));
  };

  let theme = order.includes(stored()) ? stored() : "auto";
  show(theme);
  document.addEventListener("DOMContentLoaded", () => {
    show(theme);
    document.getElementById("theme").addEventListener("click", () => {
      theme = order[(order.indexOf(theme) + 1) % order.length];
      keep(theme);
      show(theme);
    });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(theme));
})();
