// Goal: whoever opens the page sees what is true, at once, and nothing that others wrote can do harm.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { fits, launch, open, row, says } from "./browser.js";
import { until, World } from "./processes.js";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test("the page loads without a complaint and asks nobody but its sidecar", async (t) => {
  const world = await World.start(t);
  const { page, requests, complaints } = await open(t, browser, world.url);
  await says(page, "#verdict", "Locks can be taken");
  await says(page, "#verdict-detail", "5 of 5 nodes vote, 3 are needed. 2 more may fail.");
  await says(page, "#scope", "may read and lock");
  assert.equal(await page.locator("#node-rows tr[data-state=votes]").count(), 5);
  assert.equal(await page.locator("#ballots i[data-state=votes]").count(), 5);
  await until("it asks again and again", () => requests.filter((it) => new URL(it.url()).pathname === "/v1/overview").length >= 3);
  await page.waitForFunction(() => document.getElementById("events").dataset.state === "live");
  assert.deepEqual(requests.map((it) => it.url()).filter((url) => !url.startsWith(world.url) && !url.startsWith("data:")), []);
  assert.deepEqual(complaints, []);
});

test("a lock that another process takes is seen at once, with who, why and how long", async (t) => {
  const world = await World.start(t);
  const { page } = await open(t, browser, world.url);
  await says(page, "#locks-empty-text", "No lock is held.");
  const holder = world.hold("nightly/report:7", "--reason", "monthly close");
  t.after(() => holder.end());
  await until("it is held", async () => JSON.parse(await world.run("status", "--json", "nightly/report:7")).held);
  const taken = Date.now();
  const line = row(page, "nightly/report:7");
  await line.waitFor();
  const took = Date.now() - taken;
  t.diagnostic(`a lock was on the page ${took} ms after it was held`);
  assert.ok(took < 3000, `${took} ms`);
  assert.match(await line.locator("[data-label=holder]").innerText(), /@/);
  assert.match(await line.locator("[data-label=holder]").innerText(), /pid \d+/);
  assert.equal(await line.locator(".why").innerText(), "monthly close");
  assert.match(await line.locator("[data-label=fence]").innerText(), /^\d{6,}$/);
  await line.locator("[data-label=votes]").filter({ hasText: "5/5" }).waitFor();
  assert.match(await line.locator("time").getAttribute("title"), /\d{4}-\d\d-\d\dT/);
  await holder.end();
  const ended = Date.now();
  await line.waitFor({ state: "detached" });
  t.diagnostic(`it was gone ${Date.now() - ended} ms after its holder ended`);
});

test("the remaining time runs down smoothly and changes its colour", async (t) => {
  const world = await World.start(t, { nodes: 3 });
  const { page } = await open(t, browser, world.url);
  await says(page, "#verdict", "Locks can be taken");
  await world.acquire("melting", { ttl_ms: 5000 });
  await row(page, "melting").waitFor();
  const samples = await page.evaluate(async () => {
    const line = document.querySelector("#lock-rows tr");
    const seen = [];
    for (let i = 0; i < 9; i++) {
      const width = line.querySelector(".track i").getBoundingClientRect().width;
      seen.push([parseFloat(line.querySelector(".remaining span").textContent), width]);
      await new Promise((wake) => setTimeout(wake, 100));
    }
    return seen;
  });
  const shrinks = samples.slice(1).filter(([, width], i) => width < samples[i][1]).length;
  assert.ok(shrinks >= 7, `the bar stood still: ${JSON.stringify(samples)}`);
  assert.ok(new Set(samples.map(([left]) => left)).size >= 5, `the number stood still: ${JSON.stringify(samples)}`);
  await page.locator("#lock-rows tr[data-level=low]").waitFor();
  await row(page, "melting").waitFor({ state: "detached" });
});

test("what others wrote is shown as text, whatever it is", async (t) => {
  const world = await World.start(t, { nodes: 3 });
  const evil = "<img src=x onerror=\"window.pwned=1\">";
  const { page, complaints, requests } = await open(t, browser, world.url);
  assert.equal((await world.acquire(evil, { owner: `<script>window.pwned=2</script>`, reason: `<svg onload=window.pwned=3>"'&amp;` })).status, 200);
  assert.equal((await world.acquire("pay\u202etxt.exe")).status, 400, "no lock has an invisible character in its name");
  assert.equal((await world.acquire("pay", { owner: "a\u200bb", reason: "r\u202ee" })).status, 200);
  const line = row(page, evil);
  await line.waitFor();
  assert.equal(await line.locator(".name").innerText(), evil);
  assert.equal(await line.locator("[data-label=holder] bdi").innerText(), "<script>window.pwned=2</script>");
  assert.equal(await line.locator(".why").innerText(), `<svg onload=window.pwned=3>"'&amp;`);
  await says(page, "#event-rows .text", evil);
  assert.equal(await row(page, "pay").locator("[data-label=holder] bdi").innerText(), "a\ufffdb");
  assert.equal(await row(page, "pay").locator(".why").innerText(), "r\ufffde");
  assert.equal(await page.locator("main img, main script, main svg").count(), 0);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.deepEqual(complaints, []);
  assert.ok(requests.every((it) => it.url().startsWith(world.url) || it.url().startsWith("data:")));
});

test("what other programs stored under a lock's name does not break the page", async (t) => {
  const world = await World.start(t, { nodes: 3, args: ["--anonymous", "write"] });
  const { page, complaints } = await open(t, browser, world.url);
  const stored = {
    absurd: `${"0123456789abcdef".repeat(2)} 9007199254740991 who@where 4294967295 18446744073709551615 why`,
    foreign: "the-value-of-another-client",
  };
  for (const [name, value] of Object.entries(stored)) {
    await world.acquire(name);
    for (const node of world.nodes) assert.match(await node.command(`SET ${name} "${value}" XX PX 25000`), /OK/);
  }
  await says(page, "#lock-rows [data-label=holder]", "another kind of client");
  await says(page, "#lock-rows [data-label=holder]", "who@where");
  assert.equal(await row(page, "absurd").locator("time").innerText(), "–");
  assert.equal(await row(page, "foreign").getByRole("button").count(), 0);
  await row(page, "absurd").getByRole("button").click();
  await says(page, "#free-holder", "who@where");
  assert.deepEqual(complaints, []);
});

test("the example of the empty page works when it is copied", async (t) => {
  const world = await World.start(t, { nodes: 3 });
  const { page, context } = await open(t, browser, world.url);
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await says(page, "#locks-empty-text", "No lock is held.");
  await page.locator("#locks-copy").click();
  await says(page, "#locks-copy", "Copied");
  const command = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(command, /^curl -X POST http/);
  try {
    await promisify(execFile)("curl", ["--version"]);
  } catch {
    return t.diagnostic("no curl here, so the example was only read");
  }
  const { stdout } = await promisify(execFile)("sh", ["-c", command]);
  assert.equal(JSON.parse(stdout).name, "demo");
  await row(page, "demo").waitFor();
});

test("locks are filtered and sorted, and a row stays under the pointer", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  const { page } = await open(t, browser, world.url);
  for (const [name, owner] of [["beta", "anna"], ["alpha", "berta"], ["gamma", "anna"]]) {
    await world.acquire(name, { owner });
    await new Promise((wake) => setTimeout(wake, 20));
  }
  const names = () => page.locator("#lock-rows .name").allInnerTexts();
  await until("newest first", async () => (await names()).join() === "gamma,alpha,beta");
  await page.getByRole("button", { name: "Lock", exact: true }).click();
  await until("sorted by name", async () => (await names()).join() === "alpha,beta,gamma");
  assert.equal(await page.locator("th[data-sort=name]").getAttribute("aria-sort"), "ascending");
  await page.getByRole("button", { name: "Since" }).click();
  await page.getByRole("button", { name: "Since" }).click();
  await until("oldest first", async () => (await names()).join() === "beta,alpha,gamma");
  await page.locator("#locks-filter").fill("anna");
  await until("filtered", async () => (await names()).join() === "beta,gamma");
  await says(page, "#locks-count", "2 of 3 match");
  await page.locator("#locks-filter").fill("nobody");
  await says(page, "#locks-empty-text", "No lock matches.");
  await page.locator("#locks-filter").fill("");
  await page.locator("#lock-rows .name").filter({ hasText: "beta" }).hover();
  await page.getByRole("button", { name: "Since" }).evaluate((it) => it.click());
  await world.acquire("delta");
  await until("it comes last while somebody points at a row", async () => (await names()).at(-1) === "delta");
  await page.locator("#verdict").hover();
  await until("it comes first when nobody does", async () => (await names())[0] === "delta");
});

test("events arrive, are filtered, and wait while paused", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  const { page } = await open(t, browser, world.url);
  await page.waitForFunction(() => document.getElementById("events").dataset.state === "live");
  const { body: lease } = await world.acquire("first");
  await says(page, "#event-rows li[data-kind=acquired]", "first");
  await page.locator("#events-pause").click();
  await world.ask("v1/locks/first/release", { token: lease.token });
  await says(page, "#events-state", "paused, 1 new");
  assert.equal(await page.locator("#event-rows li[data-kind=released]").count(), 0);
  await page.locator("#events-pause").click();
  await says(page, "#event-rows li:first-child[data-kind=released]", "first");
  await page.locator("#events-filter").fill("released");
  await until("one is left", async () => (await page.locator("#event-rows li").count()) === 1);
  await page.locator("#events-filter").fill("");
  await page.locator("#events-severity").selectOption("2");
  await until("none is left", async () => (await page.locator("#event-rows li").count()) === 0);
});

test("plots have data, fit the window and follow it", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  const { page, complaints } = await open(t, browser, world.url);
  await world.acquire("plotted");
  await until("a latency is told", async () => /\d/.test(await page.locator("#plots figure").first().locator(".note").innerText().then((it) => (it === "" ? "1" : ""))));
  const width = () => page.locator("#plots canvas").first().evaluate((it) => it.getBoundingClientRect().width);
  const wide = await width();
  await page.setViewportSize({ width: 400, height: 800 });
  await until("the plots follow", async () => (await width()) !== wide);
  assert.ok((await width()) <= 400);
  assert.equal(await page.locator("#plots canvas").count(), 3);
  await fits(page);
  assert.deepEqual(complaints, []);
});
