// Goal: who needs a token is asked for it, and it goes nowhere but into the header.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, says, shot } from "./browser.js";
import { World } from "./processes.js";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const SECRET = "read-secret-0123456789";

async function guarded(t) {
  const world = await World.start(t, { nodes: 1 });
  await world.stopSidecar();
  await world.serve(["--token-file", world.file("tokens", `read:${SECRET}\n`)]);
  return world;
}

test("the page asks for a token, refuses a wrong one, and shows everything with the right one", async (t) => {
  const world = await guarded(t);
  const { page, requests } = await open(t, browser, world.url);
  await says(page, "#verdict", "A token is needed");
  await page.locator("#token-form").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), "token");
  await shot(page, "token");
  await page.locator("#token").fill("wrong-secret-0123456789");
  await page.getByRole("button", { name: "Use it" }).click();
  await says(page, "#token-note", "does not know this token");
  await page.locator("#token").fill(SECRET);
  await page.keyboard.press("Enter");
  await says(page, "#verdict", "Locks can be taken");
  await says(page, "#scope", "may read");
  await page.locator("#token-form").waitFor({ state: "hidden" });
  await page.waitForFunction(() => document.getElementById("events").dataset.state === "live");
  assert.ok(requests.every((it) => !it.url().includes(SECRET)));
  assert.ok(!page.url().includes(SECRET));
});

test("the token lasts as long as the tab, and can be forgotten", async (t) => {
  const world = await guarded(t);
  const { page, context } = await open(t, browser, world.url);
  await page.locator("#token").fill(SECRET);
  await page.keyboard.press("Enter");
  await says(page, "#verdict", "Locks can be taken");
  await page.reload();
  await says(page, "#verdict", "Locks can be taken");
  assert.deepEqual(await page.evaluate(() => Object.values(localStorage).filter((it) => it.includes("secret"))), []);
  const other = await context.newPage();
  await other.goto(world.url);
  await says(other, "#verdict", "A token is needed");
  await page.locator("#token-forget").click();
  await says(page, "#verdict", "A token is needed");
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});
