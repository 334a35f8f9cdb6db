// A browser with one page that remembers what was asked for and what was complained about.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { chromium } from "playwright-core";
import { TIMEOUT_MS } from "./processes.js";

/** The browser that the system has. */
function chromiumPath() {
  const candidates = (process.env.PATH ?? "").split(delimiter).flatMap((place) => ["chromium", "chromium-browser", "google-chrome"].map((name) => join(place, name)));
  return process.env.CHROMIUM ?? candidates.find(existsSync);
}

/** Starts the browser once for a file of tests. */
export async function launch() {
  // Without its sandbox because tests often run as root, in a container. It sees only our own page.
  return chromium.launch({ executablePath: chromiumPath(), args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

/** Opens the dashboard in a session of its own. */
export async function open(t, browser, url, { width = 1280, height = 800, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, ...options });
  t.after(() => context.close());
  context.setDefaultTimeout(TIMEOUT_MS);
  const page = await context.newPage();
  const seen = { page, context, requests: [], complaints: [] };
  page.on("request", (request) => seen.requests.push(request));
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) seen.complaints.push(message.text()); });
  page.on("pageerror", (error) => seen.complaints.push(String(error.stack)));
  await page.goto(url);
  return seen;
}

/** Waits for text in an element. */
export async function says(page, selector, text, timeout = TIMEOUT_MS) {
  const place = page.locator(selector).filter({ hasText: text }).first();
  try {
    await place.waitFor({ timeout });
  } catch {
    const found = await page.locator(selector).allTextContents();
    assert.fail(`no ${selector} says ${text} but ${JSON.stringify(found)}`);
  }
  return place;
}

/** The row of a lock. Its name goes in as a string of CSS. */
export const row = (page, name) => page.locator(`#lock-rows tr[data-lock=${JSON.stringify(name)}]`);

/** Writes a picture if somebody wants pictures: SHOTS=directory. */
export async function shot(page, name) {
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}.png`) });
}

/** Nothing sticks out to the right. */
export async function fits(page) {
  const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(content <= width, `the page is ${content} px wide in a window of ${width} px`);
}
