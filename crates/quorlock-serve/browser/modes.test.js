// Goal: readers, slots and terms are shown as people call them.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fits, launch, open, row, says } from "./browser.js";
import { World } from "./processes.js";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test("a shared lock is one row with its number of readers, and its page names each of them", async (t) => {
  const world = await World.start(t, { nodes: 3, args: ["--anonymous", "write"] });
  await world.acquire("config", { mode: "shared", owner: "ann", reason: "nightly", ttl_ms: 25_000 });
  await world.acquire("config", { mode: "shared", owner: "bob", ttl_ms: 25_000 });
  const { page, complaints } = await open(t, browser, world.url);
  const line = row(page, "config");
  await line.getByText("2 readers").waitFor();
  assert.equal(await line.getByText("shared", { exact: true }).isVisible(), true);
  assert.equal(await line.getByRole("button", { name: "Free" }).isVisible(), false);
  await line.getByRole("link").click();
  await says(page, "#lock-state", "Held, shared");
  const readers = await page.locator("[data-fact=readers] li").allInnerTexts();
  assert.match(readers[0], /^ann pid \d+, fence \d+$/);
  assert.match(readers[1], /^bob pid \d+, fence \d+$/);
  assert.equal(await page.locator("[data-fact=fence]").isVisible(), false);
  await says(page, "#lock-stores .who", "2 readers");
  await fits(page);
  assert.deepEqual(complaints, []);
});

test("a slot is called by its semaphore and number, has the events of the semaphore, and is freed by that name", async (t) => {
  const world = await World.start(t, { nodes: 3, args: ["--anonymous", "write"] });
  const { body: lease } = await world.acquire("gpu", { slots: 2, owner: "ann", ttl_ms: 25_000 });
  const { page, complaints } = await open(t, browser, world.url);
  const line = row(page, `quorlock:slot:gpu:${lease.slot}`);
  const title = `gpu #${lease.slot}`;
  await line.getByRole("link", { name: title }).click();
  await says(page, "#lock-state", "Held");
  assert.equal(await page.locator("#lock-title").innerText(), title);
  assert.equal(await page.locator("[data-fact=fence] dd").innerText(), String(lease.fence));
  await says(page, "#event-rows li[data-kind=acquired]", "gpu");
  await page.locator("#lock-free").click();
  await page.locator("#free-typed").fill(title);
  await page.locator("#free-go").click();
  await says(page, "#free-title", "Freed");
  await says(page, "#event-rows li[data-kind=force_released]", "gpu");
  assert.deepEqual(complaints, []);
});
