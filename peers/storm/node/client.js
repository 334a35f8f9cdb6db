// Puts node-redlock with ioredis behind the protocol of a storm's client; see peers/README.md.
//
// usage: client.js ID SEED RESOURCE TTL_MS NODE_TIMEOUT_MS WAIT_MS URL...
"use strict";

const readline = require("node:readline");
const fs = require("node:fs");
// Installed for the benchmark, by the same pins.
const modules = `${__dirname}/../../node/node_modules`;
const Redis = require(`${modules}/ioredis`);
const { default: Redlock } = require(`${modules}/redlock`);

const NAMES = ["a", "b", "c"];
const RECOVERY_LIMIT = 60_000;

const [me, seed, resource, ttlText, nodeTimeoutText, , ...urls] = process.argv.slice(2);
const ttl = Number(ttlText);
const nodeTimeout = Number(nodeTimeoutText);

const connections = urls.map((url) => {
  const connection = new Redis(url, { commandTimeout: nodeTimeout, connectTimeout: nodeTimeout, maxRetriesPerRequest: 0 });
  connection.on("error", () => {}); // a dead node is a vote less, not a reason to die
  return connection;
});
// Its own retries: 10, 200 ms and jitter apart.
const locks = new Redlock(connections);
locks.on("error", () => {}); // it reports every ordinary "held" here as well
const values = new Redis({ path: resource });

let isRecovering = false;
let writes = 0;

// The monotonic clock in microseconds: the same in all processes of a machine.
const now = () => process.hrtime.bigint() / 1000n;
const report = (line) => fs.writeSync(1, `${line}\n`);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
// mulberry32
let state = Number(BigInt(seed) & 0xffffffffn);
function random() {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
}

// How long the lock is still held by the library's own account, which follows the wall clock, in ms.
const left = (lock) => Math.max(lock.expiration - Date.now(), 0);
// Read before what is left, so that a pause between makes the time shorter and never longer.
function belief(lock) {
  const noted = now();
  return `${noted} ${noted + BigInt(Math.floor(left(lock) * 1000))}`;
}

async function acquire(name) {
  const called = now();
  report(`calling acquire ${called}`);
  const lock = await locks.acquire([name], ttl).catch(() => undefined);
  report(`returned ${now()}`);
  report(lock ? `granted ${name} 0 - ${called} ${belief(lock)}` : "refused");
  return lock;
}

// Reads, thinks, writes, again and again, while the library says that the lock is held. Mostly short; now and then
// beyond the ttl. Returns the lock as it was last extended.
async function workUnder(name, first) {
  let lock = first;
  const [longest, step] = random() < 0.02 ? [2 * ttl, 80] : [15, 5];
  const until = performance.now() + 1 + random() * longest;
  while (performance.now() < until && left(lock) > 0) {
    const parent = ((await values.get(`plain:${name}`)) ?? "").split("<")[0];
    await sleep(random() * step);
    // It writes all the same: a program cannot check and write in one step.
    if (left(lock) <= 0) report("late");
    writes += 1;
    await values.set(`plain:${name}`, `${me}.${writes}<${parent}`);
    if (performance.now() < until && left(lock) < ttl / 2) {
      report(`calling extend ${now()}`);
      const extended = await lock.extend(ttl).catch(() => undefined);
      report(`returned ${now()}`);
      if (extended) {
        lock = extended;
        report(`extended ${belief(lock)}`);
      }
    }
  }
  return lock;
}

async function release(lock) {
  report(`releasing ${now()} ${left(lock) <= 0}`);
  report(`calling release ${now()}`);
  await lock.release().catch(() => {}); // the ttl frees the lock
  report(`returned ${now()}`);
}

async function recover(name) {
  const start = performance.now();
  let lock = await acquire(name);
  while (!lock && performance.now() - start < RECOVERY_LIMIT) lock = await acquire(name);
  report(`recovered ${name} ${Boolean(lock)}`);
  if (lock) await release(lock);
}

async function main() {
  const orders = readline.createInterface({ input: process.stdin });
  orders.on("line", () => (isRecovering = true));
  orders.on("close", () => process.exit(0));
  while (!isRecovering) {
    const name = NAMES[Math.floor(random() * NAMES.length)];
    const lock = await acquire(name);
    if (lock) await release(await workUnder(name, lock));
    await sleep(random() * 10);
  }
  for (const name of NAMES) await recover(name);
  report("done");
}

main();
