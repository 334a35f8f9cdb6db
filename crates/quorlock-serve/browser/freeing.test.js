// Goal: a lock is taken from its holder only by who may, who knows what it does, and from the holder that was shown.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, row, says, shot } from "./browser.js";
import { until, World } from "./processes.js";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const WRITE = { args: ["--anonymous", "write"], nodes: 3 };

async function ask(page, name) {
  await row(page, name).getByRole("button").click();
  await says(page, "dialog", "not asked and not stopped");
}

async function confirm(page, name) {
  await page.locator("#free-typed").fill(name);
  await page.getByRole("button", { name: "Free the lock" }).click();
}

test("freeing asks, refuses a wrong name, and works with the right one", async (t) => {
  const world = await World.start(t, WRITE);
  const holder = world.hold("stuck/job", "--on-lost", "warn");
  t.after(() => holder.end());
  const { page, requests, complaints } = await open(t, browser, world.url);
  await row(page, "stuck/job").waitFor();
  await ask(page, "stuck/job");
  await shot(page, "dialog");
  await page.getByRole("button", { name: "Free the lock" }).click();
  await says(page, "#free-said", "Type the name first.");
  await confirm(page, "stuck/jo");
  await says(page, "#free-said", "That is not the name of this lock. Nothing was freed.");
  assert.equal(requests.filter((it) => it.method() === "POST").length, 0);
  assert.equal(await row(page, "stuck/job").count(), 1);
  await confirm(page, "stuck/job");
  await says(page, "#free-title", "Freed");
  const { status, body } = await world.ask("v1/locks/stuck%2Fjob");
  assert.equal(status, 200, JSON.stringify(body));
  assert.equal(body.held, false);
  await page.getByRole("button", { name: "Close" }).click();
  await row(page, "stuck/job").waitFor({ state: "detached" });
  assert.deepEqual(complaints, []);
});

test("closing the dialog frees nothing", async (t) => {
  const world = await World.start(t, WRITE);
  const { page, requests } = await open(t, browser, world.url);
  await world.keep(t, "kept");
  await row(page, "kept").waitFor();
  await ask(page, "kept");
  await page.locator("#free-typed").fill("kept");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("dialog").evaluate((it) => it.open), false);
  assert.equal(requests.filter((it) => it.method() === "POST").length, 0);
});

test("consent for one holder does not free the lock of the next one", async (t) => {
  const world = await World.start(t, WRITE);
  const { page, requests } = await open(t, browser, world.url);
  const { body: old } = await world.acquire("relay", { owner: "first" });
  await row(page, "relay").waitFor();
  await ask(page, "relay");
  await says(page, "#free-holder", "Held by first");
  await world.ask("v1/locks/relay/release", { token: old.token });
  await world.acquire("relay", { owner: "second" });
  await confirm(page, "relay");
  await says(page, "#free-said", "Somebody else holds it now");
  await says(page, "#free-holder", "Now held by second");
  assert.equal(requests.filter((it) => it.method() === "POST").length, 0);
  assert.equal((await world.ask("v1/locks/relay")).body.held, true);
  await confirm(page, "relay");
  await says(page, "#free-title", "Freed");
});

test("a lock that changes hands at the last moment is not freed", async (t) => {
  const world = await World.start(t, WRITE);
  const { page } = await open(t, browser, world.url);
  const { body: old } = await world.acquire("relay", { owner: "first" });
  await row(page, "relay").waitFor();
  await ask(page, "relay");
  // Between reading the token and using it.
  await page.route("**/force-release", async (route) => {
    await world.ask("v1/locks/relay/release", { token: old.token });
    await world.acquire("relay", { owner: "second" });
    await route.continue();
  });
  await confirm(page, "relay");
  await says(page, "#free-said", "Somebody else holds it now");
  assert.equal((await world.ask("v1/locks/relay")).body.holder.owner, "second");
});

test("a lock that ended meanwhile is no failure", async (t) => {
  const world = await World.start(t, WRITE);
  const { page } = await open(t, browser, world.url);
  const { body: old } = await world.acquire("brief");
  await row(page, "brief").waitFor();
  await ask(page, "brief");
  await world.ask("v1/locks/brief/release", { token: old.token });
  await confirm(page, "brief");
  await says(page, "#free-title", "Nothing to free");
});

test("without the scope write there is no button but a hint", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  await world.keep(t, "held");
  const { page } = await open(t, browser, world.url);
  await row(page, "held").waitFor();
  assert.equal(await row(page, "held").getByRole("button").count(), 0);
  await says(page, "#free-hint", "--anonymous write");
});

test("with a token, the button comes with the scope write only", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  const [lock, write] = ["lock-secret-0123456789", "write-secret-0123456789"];
  await world.stopSidecar();
  await world.serve(["--token-file", world.file("tokens", `lock:${lock}\nwrite:${write}\n`), "--anonymous", "read"]);
  const { page } = await open(t, browser, world.url);
  await world.acquire("guarded", {}, { authorization: `Bearer ${lock}` });
  await row(page, "guarded").waitFor();
  for (const [secret, buttons] of [[lock, 0], [write, 1]]) {
    if (secret === write) await page.locator("#token-forget").click();
    await page.locator("#token-open").click();
    await page.locator("#token").fill(secret);
    await page.keyboard.press("Enter");
    await says(page, "#scope", secret === write ? "may read, lock and free" : "may read and lock");
    await until("the row is drawn again", async () => (await row(page, "guarded").getByRole("button").count()) === buttons);
  }
  await ask(page, "guarded");
  await confirm(page, "guarded");
  await says(page, "#free-title", "Freed");
});
