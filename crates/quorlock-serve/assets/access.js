// What this caller may do, and the token that gives more.

import { byId, setText } from "./dom.js";
import { hasToken, setToken } from "./api.js";

const form = byId("token-form");
const MAY = { none: "may do nothing", read: "may read", lock: "may read and lock", write: "may read, lock and free" };

export function showScope(scope) {
  setText(byId("scope"), MAY[scope] ?? scope);
  if (!byId("token").value && form.dataset.asked) close();
  buttons(scope);
}

/** The sidecar wants a token, or refuses the one that it got. */
export function askForToken() {
  setText(byId("scope"), "");
  setText(byId("token-note"), hasToken()
    ? "The sidecar does not know this token."
    : "This sidecar answers only to those who have a token. It stays in this tab, and is gone when you close it.");
  if (form.hidden) {
    form.hidden = false;
    byId("token").focus();
  }
  form.dataset.asked = "yes";
  byId("token-cancel").hidden = true;
  buttons("none");
}

function buttons(scope) {
  byId("token-open").hidden = hasToken() || scope === "write" || !form.hidden;
  byId("token-forget").hidden = !hasToken();
}

function close() {
  form.hidden = true;
  delete form.dataset.asked;
  setText(byId("token-note"), "");
}

const changed = () => dispatchEvent(new Event("token"));

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const secret = byId("token").value.trim();
  if (!secret) return;
  setToken(secret);
  byId("token").value = "";
  setText(byId("token-note"), "Asking …");
  if (!form.dataset.asked) close();
  changed();
});
byId("token-open").addEventListener("click", () => {
  form.hidden = false;
  byId("token-open").hidden = true;
  byId("token-cancel").hidden = false;
  setText(byId("token-note"), "It stays in this tab, and is gone when you close it.");
  byId("token").focus();
});
byId("token-cancel").addEventListener("click", () => {
  close();
  byId("token-open").hidden = false;
  byId("token-open").focus();
});
byId("token-forget").addEventListener("click", () => {
  setToken(null);
  changed();
});
