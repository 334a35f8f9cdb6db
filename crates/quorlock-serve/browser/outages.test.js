// Goal: when nodes or the sidecar fail, the page says what happens and what to do, and never shows old facts as new ones.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, row, says, shot } from "./browser.js";
import { until, World } from "./processes.js";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test("two of five down continue, a third stops, and one that restarts waits in quarantine", async (t) => {
  const world = await World.start(t, { ttl: 5 });
  const { page } = await open(t, browser, world.url);
  await says(page, "#verdict", "Locks can be taken");
  await world.nodes[0].kill();
  await says(page, ".banner[data-code=nodes_down]", "continuing");
  await world.nodes[1].kill();
  await says(page, ".banner[data-code=quorum_at_risk][data-severity=warning]", "One more failure");
  await says(page, "#verdict", "with none to spare");
  assert.equal(await page.locator("#node-rows tr[data-state=down]").count(), 2);
  assert.equal((await world.acquire("still-works")).status, 200);
  await row(page, "still-works").waitFor();
  await shot(page, "two-down");

  await world.nodes[2].kill();
  await says(page, ".banner[data-code=no_quorum][data-severity=critical]", "No quorum");
  await says(page, "#verdict", "No lock can be taken");
  await says(page, "#shout", "No quorum");
  assert.match(await page.title(), /no quorum 2\/5/);
  await shot(page, "no-quorum");

  await world.nodes[0].start();
  const restarted = page.locator("#node-rows tr[data-state=waits] .vote");
  await restarted.filter({ hasText: /votes in \d/ }).waitFor();
  await says(page, ".banner[data-code=node_quarantined]", "votes again in");
  await says(page, "#verdict-detail", "Again in about");
  await shot(page, "quarantine");
  const first = await restarted.innerText();
  await page.waitForFunction((text) => document.querySelector("#node-rows tr[data-state=waits] .vote")?.textContent !== text, first);
  await until("it votes again", async () => (await page.locator("#node-rows tr[data-state=votes]").count()) === 3, 40_000);
  await says(page, "#verdict", "Locks can be taken");
});

test("a sidecar that stops is missed at once, and found again", async (t) => {
  const world = await World.start(t, { nodes: 3 });
  const { page } = await open(t, browser, world.url);
  await world.acquire("left-behind");
  await row(page, "left-behind").waitFor();
  await world.stopSidecar();
  await says(page, "#verdict", "The sidecar does not answer");
  await says(page, ".banner[data-code=unreachable]", "No connection to the sidecar");
  assert.equal(await page.evaluate(() => document.body.dataset.link), "stale");
  assert.match(await page.locator(".columns").evaluate((it) => getComputedStyle(it).filter), /grayscale/);
  const frozen = await row(page, "left-behind").locator(".remaining span").first().innerText();
  await says(page, "#verdict-detail", /What you see below is \d/);
  await new Promise((wake) => setTimeout(wake, 500));
  assert.equal(await row(page, "left-behind").locator(".remaining span").first().innerText(), frozen, "old facts do not count down");
  await shot(page, "unreachable");

  await world.serve();
  await says(page, "#verdict", "Locks can be taken");
  assert.equal(await page.locator(".banner[data-code=unreachable]").count(), 0);
  assert.equal(await page.evaluate(() => document.body.dataset.link), "live");
  await world.acquire("after-the-restart");
  await row(page, "after-the-restart").waitFor();
  await says(page, "#event-rows .text", "after-the-restart");
  const twice = (await page.locator("#event-rows li .text").allInnerTexts()).filter((it) => it.includes("after-the-restart"));
  assert.equal(twice.length, 1);
});

test("a sidecar that hangs is missed, too", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  const { page } = await open(t, browser, world.url);
  await says(page, "#verdict", "Locks can be taken");
  world.sidecar.kill("SIGSTOP");
  await says(page, "#verdict", "The sidecar does not answer");
  world.sidecar.kill("SIGCONT");
  await says(page, "#verdict", "Locks can be taken");
});
