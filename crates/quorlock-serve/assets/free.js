// Taking a lock away from its holder: explained, confirmed by typing its name, and only from the holder that was shown.

import { byId, el, setAttribute, setText, visible } from "./dom.js";
import { age, iso } from "./format.js";
import { ask } from "./api.js";
import { titleOf } from "./route.js";

const dialog = byId("free");
const typed = byId("free-typed");
let view = null;
let done = false;

/** Asks about the lock as it is shown now. */
export function openFree(lock) {
  view = lock;
  done = false;
  typed.value = "";
  say("");
  showHolder("Held by");
  setText(byId("free-title"), "Free this lock?");
  setText(byId("free-name"), visible(titleOf(lock.name)));
  setText(byId("free-close"), "Keep it");
  byId("free-ask").hidden = false;
  byId("free-go").hidden = false;
  busy(false);
  dialog.showModal();
  typed.focus();
}

function showHolder(words) {
  const { owner, pid, since, reason, foreign } = view.holder ?? {};
  const who = foreign ? "another kind of client" : `${visible(owner ?? "?")}${pid ? `, pid ${pid}` : ""}`;
  const long = iso(since) ? `, for ${age(Date.now() - since)}` : "";
  const fence = view.fence === null || view.fence === undefined ? "" : `, fence ${view.fence}`;
  const why = reason ? [": ", el("bdi", {}, visible(reason))] : [];
  byId("free-holder").replaceChildren(`${words} `, el("bdi", {}, who), `${long}${fence}`, ...why);
}

function say(text, bad = true) {
  const box = byId("free-said");
  setText(box, text);
  setAttribute(box, "data-bad", bad ? "yes" : null);
  setAttribute(typed, "aria-invalid", text && bad && !byId("free-ask").hidden ? "true" : null);
}

function busy(yes) {
  byId("free-go").disabled = yes;
  typed.readOnly = yes;
}

function finish(title, text) {
  done = true;
  setText(byId("free-title"), title);
  byId("free-ask").hidden = true;
  byId("free-go").hidden = true;
  say(text, false);
  setText(byId("free-close"), "Close");
  byId("free-close").focus();
}

const same = (a, b) => a.fence === b.fence && a.holder?.owner === b.holder?.owner && a.holder?.since === b.holder?.since;

async function free() {
  const path = `v1/locks/${encodeURIComponent(view.name)}`;
  const now = await ask(path);
  if (!now.held) return finish("Nothing to free", "Nobody holds this lock any more.");
  if (!same(now, view)) return changed(now);
  if (!now.token) return say("The sidecar did not give out the token: that needs the scope write.");
  const { outcome } = await ask(`${path}/force-release`, { body: { token: now.token } });
  if (outcome === "released") finish("Freed", "The nodes have let go. Whoever waits can have it now.");
  else finish("Probably freed", "Too few nodes confirmed it. If it is still listed, try again; otherwise it ends at its deadline.");
  dispatchEvent(new Event("freed"));
}

/** Consent was for another holder: ask again. */
function changed(now) {
  view = now;
  typed.value = "";
  showHolder("Now held by");
  say("Somebody else holds it now, so nothing was freed. Look at the new holder, and type the name again if you still want this.");
  typed.focus();
}

async function submit() {
  if (done) return dialog.close();
  const answer = typed.value.trim();
  const title = titleOf(view.name);
  if (answer !== title.trim() && answer !== visible(title).trim()) {
    say(answer ? "That is not the name of this lock. Nothing was freed." : "Type the name first.");
    return typed.focus();
  }
  say("");
  busy(true);
  try {
    await free();
  } catch (error) {
    await failed(error);
  } finally {
    busy(false);
  }
}

async function failed(error) {
  if (error.status !== 410) return say(error.status ? error.message : "The sidecar did not answer. Whether the lock was freed is not known.");
  // Between reading the token and using it, the lock changed hands or ended.
  const now = await ask(`v1/locks/${encodeURIComponent(view.name)}`).catch(() => null);
  if (now?.held) changed(now);
  else finish("Nothing to free", "The lock ended by itself just now.");
}

byId("free-form").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
byId("free-close").addEventListener("click", () => dialog.close());
