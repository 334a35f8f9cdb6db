// Goal: each lock has an address of its own, which shows all that is known about it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fits, launch, open, row, says } from "./browser.js";
import { until, World } from "./processes.js";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const address = (world, name) => `${world.url}#/locks/${encodeURIComponent(name)}`;
const fact = (page, name) => page.locator(`[data-fact=${name}] dd`).innerText();

test("a lock's own page shows its holder, time, votes and events, and survives a reload and the back button", async (t) => {
  const world = await World.start(t, { nodes: 3 });
  const name = "billing/invoice?#100%";
  await world.acquire("other");
  const { body: lease } = await world.acquire(name, { owner: "batch-2", reason: "monthly close", ttl_ms: 25_000 });
  const { page, complaints } = await open(t, browser, world.url);
  await page.locator("#locks-filter").fill("billing");
  await row(page, name).getByRole("link").click();
  await says(page, "#lock-state", "Held");
  assert.equal(page.url(), address(world, name));
  const check = async () => {
    await says(page, "#lock-state", "Held");
    assert.equal(await page.locator("#lock-title").innerText(), name);
    assert.match(await fact(page, "holder"), /batch-2\s+pid \d+/);
    assert.match(await fact(page, "since"), /\d{4}-\d\d-\d\dT/);
    assert.equal(await fact(page, "reason"), "monthly close");
    assert.equal(await fact(page, "fence"), String(lease.fence));
    assert.match(await fact(page, "votes"), /3\/3/);
    assert.equal(await page.locator("#lock-stores tr[data-state=votes]").count(), 3);
    await says(page, "#event-rows li[data-kind=acquired]", name);
    assert.deepEqual((await page.locator("#event-rows li").allInnerTexts()).filter((it) => it.includes("other")), []);
    assert.equal(await page.locator("#locks, #nodes, #plots").filter({ visible: true }).count(), 0);
  };
  await check();
  const left = await fact(page, "remaining");
  await until("the remaining time counts down", async () => (await fact(page, "remaining")) !== left, 2000);
  assert.ok((await page.content()).includes(lease.token) === false, "no token is shown");
  await page.reload();
  await check();
  await page.goBack();
  await row(page, name).waitFor();
  assert.equal(await page.locator("#lock").isVisible(), false);
  await says(page, "#event-rows .text", "other");
  await page.goForward();
  await check();
  await page.getByRole("link", { name: "All locks" }).click();
  await row(page, "other").waitFor();
  assert.deepEqual(complaints, []);
});

test("the page of a lock follows it from free to held to freed, with what each node stores and why one does not", async (t) => {
  const world = await World.start(t, { nodes: 3, args: ["--anonymous", "write"] });
  const { page } = await open(t, browser, address(world, "never used"));
  await says(page, "#lock-state", "Free: no client holds it.");
  assert.equal(await page.locator("#lock-stores tr[data-state=free]").count(), 3);
  assert.equal(await page.locator("#lock-free").isVisible(), false);
  await world.nodes[2].kill();
  await says(page, "#lock-stores tr[data-state=down] .trouble", /connect/);
  await world.acquire("never used", { owner: "first" });
  await says(page, "#lock-state", "Held");
  assert.match(await fact(page, "votes"), /2\/3/);
  const waiting = world.acquire("never used", { wait_ms: 20_000, owner: "second" });
  await until("the waiter is shown", async () => (await fact(page, "waiting")).startsWith("1 call"));
  await page.locator("#lock-free").click();
  await page.locator("#free-typed").fill("never used");
  await page.getByRole("button", { name: "Free the lock" }).click();
  await says(page, "#free-title", "Freed");
  await page.getByRole("button", { name: "Close" }).click();
  assert.equal((await waiting).status, 200);
  await until("the next holder is shown", async () => (await fact(page, "holder")).startsWith("second"));
  await world.nodes[1].kill();
  await says(page, "#lock-state", "too few nodes");
  assert.equal(await page.locator("#lock-facts").isVisible(), false);
  assert.equal(await page.locator("#lock-stores tr[data-state=down]").count(), 2);
});

test("a name that no lock can have, and an address that makes no sense, are explained", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  const { page } = await open(t, browser, address(world, "x".repeat(513)));
  await says(page, "#lock-state", "No lock can be looked at under this name");
  await page.goto(`${world.url}#/locks/%E0%A4%A`);
  await says(page, "#lock-state", "does not name a lock");
  await says(page, "#verdict", "Locks can be taken");
  await page.goto(`${world.url}#/locks/`);
  await says(page, "#locks-empty-text", "No lock is held.");
});

test("names of 512 bytes in any script are cut in rows, and whole on their own page", async (t) => {
  const world = await World.start(t, { nodes: 1, args: ["--anonymous", "write"], ttl: 300 });
  const long = {
    latin: "x".repeat(512), wide: "鎖".repeat(170), emoji: "🔒".repeat(128), right: "קלמ".repeat(85), words: "a b ".repeat(128).trim(),
  };
  for (const name of Object.values(long)) await world.acquire(name, { owner: "o".repeat(200), reason: "because ".repeat(25) });
  for (const width of [320, 390, 1024, 1440]) {
    const { page, context } = await open(t, browser, world.url, { width, height: 844 });
    await row(page, long.latin).waitFor();
    await fits(page);
    for (const [kind, name] of Object.entries(long)) {
      const line = row(page, name);
      const box = await line.boundingBox();
      assert.ok(box.height < (width < 761 ? 230 : 60), `the row of ${kind} is ${box.height} px high at ${width} px`);
      const title = line.locator(".name");
      const [shown, whole] = await title.evaluate((it) => [it.clientWidth, it.scrollWidth]);
      assert.ok(shown > 90 && shown < whole, `${kind} at ${width} px shows ${shown} of ${whole} px`);
      assert.equal(await title.locator("bdi").getAttribute("title"), name);
    }
    for (const item of await page.locator("#event-rows li").all()) {
      const box = await item.boundingBox();
      assert.ok(box.height < 90, `an event is ${box.height} px high at ${width} px`);
    }
    await row(page, long.wide).getByRole("link").click();
    await says(page, "#lock-state", "Held");
    assert.equal(await page.locator("#lock-title").innerText(), long.wide);
    assert.equal((await fact(page, "holder")).split(/\s/)[0], "o".repeat(200));
    await fits(page);
    await page.goto(address(world, "pay\u202etxt.exe"));
    // No lock can have such a name, but a link may.
    await says(page, "#lock-state", "invisible character");
    assert.equal(await page.locator("#lock-title").innerText(), "pay⟨202E⟩txt.exe");
    assert.equal(await page.locator("#lock-title").evaluate((it) => getComputedStyle(it).unicodeBidi), "isolate");
    await context.close();
  }
});
