// Puts a library on ioredis behind the protocol of peers/README.md: `contestant.js node_redlock FLAGS`.
"use strict";

const fs = require("node:fs");
const readline = require("node:readline");
const { parseArgs } = require("node:util");
const Redis = require("ioredis");

const text = (value) => ({ type: "string", default: value });
const flags = parseArgs({
  args: process.argv.slice(3),
  options: {
    nodes: text(""),
    clients: text("1"),
    seconds: text("1"),
    warmup: text("0"),
    workload: text("own"),
    "hold-us": text("0"),
    prefix: text("p"),
    "ttl-ms": text("10000"),
    "node-timeout-ms": text("0"),
    ledger: text(""),
  },
}).values;
const clients = Number(flags.clients);
const ttl = Number(flags["ttl-ms"]);
const hold = Number(flags["hold-us"]) / 1000;
// The holder of the lock signs this file, in any process.
const ledger = flags.ledger && fs.openSync(flags.ledger, "r+");
const nodeTimeout = Number(flags["node-timeout-ms"]);

// How long a wait that is under way at the end may still take, in ms.
const LAST_WAIT = 10_000;

const connections = flags.nodes.split(",").map((url) => {
  const limit = nodeTimeout > 0 ? { commandTimeout: nodeTimeout, maxRetriesPerRequest: 0 } : {};
  const connection = new Redis(url, limit);
  connection.on("error", () => {}); // a dead node is a vote less, not a reason to die
  return connection;
});
const library = require(`./${process.argv[2]}.js`)(connections, ttl);

const now = () => performance.now();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const nameOf = (client) => (flags.workload === "one" ? flags.prefix : `${flags.prefix}:${client}`);

class Tally {
  buckets = new Uint32Array(1024);
  counts = new Uint32Array(clients);
  failed = 0;
  // Cycles where another client had the lock before.
  handoffs = 0;

  // 32 buckets per doubling of microseconds.
  note(ms) {
    this.buckets[Math.min(Math.floor(Math.log2(Math.max(ms * 1000, 1)) * 32), 1023)] += 1;
  }

  outcome(seconds, cpu) {
    return {
      version: `${version(library.package).replace(/^v/, "")} ioredis ${version("ioredis")}`,
      seconds,
      cycles: this.counts.reduce((sum, count) => sum + count, 0),
      handoffs: ledger ? this.handoffs : undefined,
      failed: this.failed,
      least: this.counts.reduce((a, b) => Math.min(a, b), Infinity),
      most: this.counts.reduce((a, b) => Math.max(a, b), 0),
      cpu_us: cpu.user + cpu.system,
      acquire: [...this.buckets.entries()].filter(([, count]) => count > 0),
    };
  }
}

function version(name) {
  return JSON.parse(fs.readFileSync(`${__dirname}/node_modules/${name}/package.json`)).version;
}

// Signs the ledger; `true` if another client signed it last.
function sign(client) {
  const name = String(process.pid).padStart(8) + String(client).padStart(8);
  const last = Buffer.alloc(16);
  if (fs.readSync(ledger, last, 0, 16, 0) === 16 && last.toString("latin1") === name) return false;
  fs.writeSync(ledger, name, 0, "latin1");
  return true;
}

// Asks until the lock is granted; `undefined` after its limit.
async function acquire(name, tally, limit) {
  for (;;) {
    try {
      return await library.acquire(name);
    } catch {
      tally.failed += 1;
      if (now() >= limit) return undefined;
    }
  }
}

async function client(number, tally, end) {
  const name = nameOf(number);
  for (;;) {
    const asked = now();
    if (asked >= end) return;
    const lock = await acquire(name, tally, end + LAST_WAIT);
    tally.note(now() - asked);
    if (!lock) return;
    const isHandoff = ledger && sign(number);
    if (hold > 0) await sleep(hold);
    await lock.release().catch(() => {});
    if (now() < end) {
      tally.counts[number] += 1;
      if (isHandoff) tally.handoffs += 1;
    }
  }
}

async function cycles(seconds) {
  const tally = new Tally();
  if (seconds <= 0) return tally.outcome(0, process.cpuUsage());
  const before = process.cpuUsage();
  const end = now() + seconds * 1000;
  const running = Array.from({ length: clients }, (_, number) => client(number, tally, end));
  await sleep(end - now());
  const cpu = process.cpuUsage(before);
  await Promise.all(running);
  return tally.outcome(seconds, cpu);
}

// Takes all locks, which the library keeps alive until the process ends.
async function holdAll(tally) {
  const never = new Promise(() => {});
  let held = 0;
  const lost = () => {
    tally.failed += 1;
  };
  for (let first = 0; first < clients; first += 500) {
    const batch = [];
    for (let number = first; number < Math.min(first + 500, clients); number += 1) {
      batch.push(
        new Promise((resolve) => {
          const granted = () => {
            held += 1;
            resolve();
          };
          library.keep(nameOf(number), never, granted, lost).catch(() => resolve());
        }),
      );
    }
    await Promise.all(batch);
  }
  tally.failed += clients - held;
}

async function waitForGo() {
  console.log("ready");
  for await (const _ of readline.createInterface({ input: process.stdin })) return;
}

async function main() {
  const seconds = Number(flags.seconds);
  if (flags.workload === "held") {
    const tally = new Tally();
    await holdAll(tally);
    await waitForGo();
    const before = process.cpuUsage();
    await sleep(seconds * 1000);
    console.log(JSON.stringify(tally.outcome(seconds, process.cpuUsage(before))));
  } else {
    await cycles(Number(flags.warmup));
    await waitForGo();
    console.log(JSON.stringify(await cycles(seconds)));
  }
  process.exit(0);
}

main();
