// Makes the pictures of docs/dashboard.md: QUORLOCK=PROGRAM node pictures.js DIRECTORY
// Traffic runs for five minutes first, because that is what the plots show; MINUTES=1 is enough for a look.

import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { launch, says } from "./browser.js";
import { World } from "./processes.js";

const SIZE = { width: 1280, height: 860 };
const directory = process.argv[2];
if (!directory) throw new Error("name the directory for the pictures");
const minutes = Number(process.env.MINUTES ?? 5);
const cleanups = [];
const owner = { after: (cleanup) => cleanups.push(cleanup) };

/** Locks as a shop might have them, each kept by a connection. */
const KEPT = [
  ["billing:invoice-run", { owner: "batch-2", reason: "nightly invoice run", ttl_ms: 60_000 }],
  ["leader:scheduler", { owner: "web-3", ttl_ms: 15_000 }],
  ["cache:warm:frontpage", { owner: "web-2", reason: "after deploy 812", ttl_ms: 30_000 }],
];

/** Takes and releases locks of orders, some of which another worker has, until `end`. */
async function work(world, worker, end) {
  while (Date.now() < end) {
    const name = `orders:${4700 + Math.floor(Math.random() * 40)}`;
    const { status, body } = await world.acquire(name, { owner: `web-${worker % 3 + 1}`, ttl_ms: 10_000 });
    await sleep(200 + Math.random() * 600 * (1 + Math.sin(Date.now() / 40_000)));
    if (status === 200) await world.ask(`v1/locks/${encodeURIComponent(name)}/release`, { token: body.token });
  }
}

async function picture(browser, url, name, colorScheme, ready) {
  const context = await browser.newContext({ viewport: SIZE, colorScheme });
  const page = await context.newPage();
  await page.goto(url);
  await ready(page);
  // By name, the locks that are kept come first. A starting browser slows the nodes down: let it come to rest.
  const byName = page.getByRole("button", { name: "Lock", exact: true });
  if (await byName.isVisible()) await byName.click();
  await page.mouse.move(0, 0);
  await sleep(6000);
  await page.screenshot({ path: join(directory, `${name}.png`) });
  await context.close();
}

try {
  const world = await World.start(owner, { args: ["--anonymous", "write"], ttl: 60 });
  for (const [name, terms] of KEPT) await world.keep(owner, name, terms);
  const cron = world.hold("cron:backup:db-2", "--reason", "pg_dump, weekly");
  cleanups.push(() => cron.end());
  const end = Date.now() + minutes * 60_000 + 40_000;
  const workers = Array.from({ length: 8 }, (_, worker) => work(world, worker, end));
  await sleep(minutes * 60_000);
  // Its events are among the last ones.
  await world.keep(owner, "report:daily", { owner: "batch-1", reason: "sales of yesterday", ttl_ms: 20_000 });
  const waiting = Array.from({ length: 2 }, () => world.acquire("report:daily", { wait_ms: 40_000 }));
  const browser = await launch();
  cleanups.push(() => browser.close());
  await picture(browser, world.url, "dashboard-light", "light", (page) => says(page, "#verdict", "Locks can be taken"));
  await picture(browser, `${world.url}#/locks/report%3Adaily`, "dashboard-lock", "light", (page) => says(page, "#lock-state", "Held"));
  for (const node of [1, 3]) await world.nodes[node].kill();
  await picture(browser, world.url, "dashboard-dark", "dark", (page) => says(page, "#verdict", "with none to spare"));
  await Promise.allSettled([...workers, ...waiting]);
} finally {
  for (const cleanup of cleanups.reverse()) await cleanup();
}
