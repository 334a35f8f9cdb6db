// Goal: the page can be read on a phone, in the dark, and with weak eyes.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fits, launch, open, row, says } from "./browser.js";
import { World } from "./processes.js";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

test("the theme follows the system, can be chosen, and is remembered", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  const { page } = await open(t, browser, world.url, { colorScheme: "dark" });
  const dark = await background(page);
  await page.emulateMedia({ colorScheme: "light" });
  const light = await background(page);
  assert.notEqual(dark, light);
  const button = page.getByRole("button", { name: /Theme/ });
  await button.click();
  await button.click();
  await says(page, "#theme", "Theme: dark");
  assert.equal(await background(page), dark);
  await page.reload();
  await says(page, "#theme", "Theme: dark");
  assert.equal(await background(page), dark);
});

test("a phone shows everything without scrolling sideways", async (t) => {
  const world = await World.start(t, { args: ["--anonymous", "write"] });
  const name = `a-long-name-without-any-space-${"x".repeat(200)}`;
  await world.keep(t, name, { owner: "o".repeat(120), reason: "because ".repeat(20) });
  for (const width of [360, 390, 768, 1080, 1280, 1920]) {
    const { page } = await open(t, browser, world.url, { width, height: 740 });
    await row(page, name).waitFor();
    await fits(page);
    await row(page, name).getByRole("button").click();
    await fits(page);
    const box = await page.locator("dialog").boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= width, `the dialog at ${width} px`);
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("dialog").evaluate((it) => it.open), false);
    await page.close();
  }
});

/** Buttons, links and fields that are too low for a finger. Links within a sentence are as high as its lines. */
const smallTargets = (page) => page.evaluate(() => [...document.querySelectorAll("button, a, input, select")]
  .filter((it) => it.checkVisibility() && !it.closest(".skip, .prose"))
  .map((it) => [it.id || it.className || it.textContent, (it.type === "checkbox" ? it.closest("label") : it).getBoundingClientRect().height])
  .filter(([, height]) => height < 40));

test("on a phone each control is large enough for a finger, and nothing overlaps", async (t) => {
  const world = await World.start(t, { nodes: 3, args: ["--anonymous", "write"] });
  await world.keep(t, "phone/lock", { owner: "web-1", reason: "seen on a phone" });
  for (const width of [320, 390]) {
    const { page } = await open(t, browser, world.url, { width, height: 844, isMobile: true, hasTouch: true });
    await row(page, "phone/lock").waitFor();
    await page.locator("#event-rows li").first().waitFor();
    await fits(page);
    assert.deepEqual(await smallTargets(page), [], `the list at ${width} px`);
    assert.deepEqual(await row(page, "phone/lock").evaluate(overlaps), []);
    await row(page, "phone/lock").getByRole("link").tap();
    await says(page, "#lock-state", "Held");
    await fits(page);
    assert.deepEqual(await smallTargets(page), [], `the lock at ${width} px`);
    await page.locator("#lock-free").tap();
    await says(page, "dialog", "not asked and not stopped");
    assert.deepEqual(await smallTargets(page), [], `the dialog at ${width} px`);
    await page.close();
  }
});

// Runs in the page: pairs of cells of a row that cover each other.
function overlaps(tr) {
  const cells = [...tr.children].filter((it) => it.checkVisibility()).map((it) => [it.dataset.label ?? "name", it.getBoundingClientRect()]);
  return cells.flatMap(([one, a], i) => cells.slice(i + 1)
    .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
    .map(([other]) => `${one} and ${other}`));
}

test("events have at least 250 px for their text, or a line of their own, at every width", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  await world.acquire("seen");
  for (const width of [320, 768, 1180, 1280, 1440, 1600, 1700, 1920, 2560]) {
    const { page } = await open(t, browser, world.url, { width, height: 900 });
    const text = page.locator("#event-rows li .text").first();
    await text.waitFor();
    await fits(page);
    const [own, list] = await Promise.all([text, page.locator("#event-rows")].map((it) => it.evaluate((node) => node.getBoundingClientRect().width)));
    assert.ok(own >= 250 || own > list * 0.9, `${own} of ${list} px at ${width} px`);
    await page.close();
  }
});

test("labels of the plots are whole, however long they are", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  const { page, context } = await open(t, browser, world.url);
  await context.addInitScript(() => {
    window.labels = [];
    const fillText = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, ...more) {
      if (this.textAlign === "right") window.labels.push([text, x - this.measureText(text).width]);
      return fillText.call(this, text, x, ...more);
    };
  });
  await page.route("**/v1/overview*", async (route) => {
    const answer = await route.fetch();
    const overview = await answer.json();
    overview.series.p99_ms[250] = 400_000;
    overview.series.acquires[250] = 24_000;
    await route.fulfill({ response: answer, json: overview });
  });
  await page.reload();
  await page.waitForFunction(() => ["1000000", "20,000"].every((text) => window.labels.some(([it]) => it === text)));
  assert.deepEqual(await page.evaluate(() => window.labels.filter(([, left]) => left < 0)), []);
});

test("all text has the contrast that WCAG AA asks for", async (t) => {
  const world = await World.start(t, { nodes: 3, args: ["--anonymous", "write"] });
  await world.keep(t, "held", { reason: "for its colours" });
  await world.nodes[0].kill();
  for (const colorScheme of ["light", "dark"]) {
    const { page } = await open(t, browser, world.url, { colorScheme });
    await page.locator(".banner").first().waitFor();
    await page.locator("#event-rows li").first().waitFor();
    assert.deepEqual(await page.evaluate(weakTexts), [], `the list, ${colorScheme}`);
    await row(page, "held").getByRole("link").click();
    await page.locator("#lock-stores tr[data-state=down]").waitFor();
    assert.deepEqual(await page.evaluate(weakTexts), [], `the lock, ${colorScheme}`);
  }
});

// Runs in the page: texts with a contrast below 4.5 to 1.
function weakTexts() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (css) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = css;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (css) => {
    const [r, g, b] = rgba(css).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const css = getComputedStyle(at).backgroundColor;
      if (rgba(css)[3] === 255) return css;
    }
    return "white";
  };
  return [...document.body.querySelectorAll("*")]
    .filter((it) => it.checkVisibility() && [...it.childNodes].some((child) => child.nodeType === 3 && child.data.trim()))
    .map((it) => {
      const [a, b] = [light(getComputedStyle(it).color), light(behind(it))].sort((x, y) => y - x);
      return [it.textContent.trim().slice(0, 40), it.className, Number(((a + 0.05) / (b + 0.05)).toFixed(2))];
    })
    .filter(([, , contrast]) => contrast < 4.5);
}

test("nothing moves for those who want no motion, and still the number counts down", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  await world.keep(t, "still");
  const { page } = await open(t, browser, world.url, { reducedMotion: "reduce" });
  await row(page, "still").waitFor();
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  const before = await row(page, "still").locator(".remaining span").first().innerText();
  await page.waitForFunction((text) => document.querySelector("#lock-rows .remaining span").textContent !== text, before);
});

test("the keyboard reaches the filter, the sorting and the themes", async (t) => {
  const world = await World.start(t, { nodes: 1 });
  await world.keep(t, "held");
  const { page } = await open(t, browser, world.url);
  await row(page, "held").waitFor();
  const reached = new Set();
  for (let i = 0; i < 20; i++) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate(() => document.activeElement.id || document.activeElement.textContent));
  }
  for (const wanted of ["theme", "token-open", "locks-filter", "Lock", "Since", "Remaining", "events-pause", "events-filter", "event-rows"]) {
    assert.ok(reached.has(wanted), `${wanted} is not among ${[...reached]}`);
  }
});
