// Goal: of many locks each can be found, and one at a time can be looked at closely.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, row, says } from "./browser.js";
import { until, World } from "./processes.js";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const names = (page) => page.locator("#lock-rows .name").allInnerTexts();

/** Acquires one lock. On a busy machine the node may take too long to answer: that is tried again. */
async function acquireSurely(world, n) {
  const wanted = { owner: `Worker-${n}`, reason: `invoice ${n}`, ttl_ms: 300_000 };
  let answer;
  for (let tries = 0; tries < 10; tries++) {
    answer = await world.acquire(`order-${n}`, wanted);
    if (answer.status !== 503) break;
  }
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
}

/** Acquires `count` locks through the sidecar, 50 at a time, and waits until all are listed. */
async function acquireMany(world, count) {
  const number = (i) => String(i).padStart(4, "0");
  for (let i = 0; i < count; i += 50) {
    const some = Array.from({ length: Math.min(50, count - i) }, (_, k) => number(i + k));
    await Promise.all(some.map((n) => acquireSurely(world, n)));
  }
  await until(`${count} locks are listed`, async () => (await world.ask("v1/overview")).body.locks_total === count);
}

test("a search finds one of 2 000 locks by name, holder or reason, and the list goes on live", async (t) => {
  const world = await World.start(t, { nodes: 1, ttl: 300 });
  await acquireMany(world, 2000);
  const { page, complaints } = await open(t, browser, world.url);
  await says(page, "#locks-count", "2,000");
  for (const [words, found] of [["ORDER-0007", "order-0007"], ["worker-1999", "order-1999"], ["invoice 1003", "order-1003"]]) {
    await page.locator("#locks-filter").fill(words);
    await until(`${words} is found`, async () => (await names(page)).join() === found);
    await says(page, "#locks-count", "1 of 2,000 match");
  }
  await page.locator("#locks-filter").fill("order-01");
  await says(page, "#locks-count", "100 of 2,000 match");
  assert.equal(await page.locator("#locks-pager").isVisible(), false);
  await page.locator("#locks-filter").fill("order-199");
  await says(page, "#locks-count", "10 of 2,000 match");
  await world.acquire("order-199-late");
  await row(page, "order-199-late").waitFor();
  await says(page, "#locks-count", "11 of 2,001 match");
  await row(page, "order-1990").getByRole("link").click();
  await says(page, "#event-rows li[data-kind=acquired]", "order-1990");
  await says(page, "#event-rows li[data-kind=gap][data-severity=info]", "older events are not kept");
  await page.goBack();
  await page.locator("#locks-filter").fill("no such lock");
  await says(page, "#locks-empty-text", "No lock matches.");
  assert.deepEqual(complaints, []);
});

test("pages show all of 250 locks in the chosen order, and keep their place", async (t) => {
  const world = await World.start(t, { nodes: 1, ttl: 300 });
  await acquireMany(world, 250);
  const { page } = await open(t, browser, world.url);
  await page.getByRole("button", { name: "Lock", exact: true }).click();
  await says(page, "#locks-range", "1–100 of 250");
  assert.equal(await page.locator("#locks-previous").isDisabled(), true);
  const seen = await until("the first page", async () => { const all = await names(page); return all[0] === "order-0000" && all; });
  for (const range of ["101–200", "201–250"]) {
    await page.locator("#locks-next").click();
    await says(page, "#locks-range", `${range} of 250`);
    seen.push(...await names(page));
  }
  assert.deepEqual(seen, Array.from({ length: 250 }, (_, i) => `order-${String(i).padStart(4, "0")}`));
  assert.equal(await page.locator("#locks-next").isDisabled(), true);
  await world.acquire("order-0000-between");
  await says(page, "#locks-range", "202–251 of 251");
  assert.equal((await names(page))[0], "order-0200", "a lock on another page moves none on this");
  await page.locator("#locks-previous").click();
  await says(page, "#locks-range", "102–201 of 251");
  await page.locator("#locks-filter").fill("order-0249");
  await until("a search begins on its first page", async () => (await names(page)).join() === "order-0249");
});

test("the answer to an outdated search is not shown", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  for (const name of ["alpha", "beta"]) await world.acquire(name);
  const { page } = await open(t, browser, world.url);
  await row(page, "beta").waitFor();
  let held = null;
  await page.route("**/v1/overview?*q=alp*", (route) => { held ??= route; });
  const cancelled = page.waitForEvent("requestfailed", (it) => it.url().includes("q=alp"));
  await page.locator("#locks-filter").fill("alp");
  await until("the first search is under way", () => held);
  await page.locator("#locks-filter").fill("bet");
  await until("the second is answered", async () => (await names(page)).join() === "beta");
  assert.match((await cancelled).failure().errorText, /ABORTED/);
  await says(page, "#locks-count", "1 of 2 match");
});

test("a list that lacks locks gives no exact number", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  await world.acquire("known");
  const { page } = await open(t, browser, world.url);
  await says(page, "#locks-count", "1");
  await page.route("**/v1/overview?*", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...await answer.json(), complete: false } });
  });
  await says(page, "#locks-count", "at least 1 · some may be missing");
  await page.locator("#locks-filter").fill("kno");
  await says(page, "#locks-count", "1 of at least 1 match");
});
