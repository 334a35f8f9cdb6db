// Puts node-redlock behind the line protocol of interop/README.md.
"use strict";

const readline = require("node:readline");
const Redis = require("ioredis");
const { default: Redlock, Lock } = require("redlock");

const clients = process.argv.slice(2).map((url) => {
  const client = new Redis(url, { maxRetriesPerRequest: 0 });
  client.on("error", () => {}); // a dead node is a vote less, not a reason to die
  return client;
});
const locks = new Redlock(clients, { retryCount: 0 });
locks.on("error", () => {}); // it reports every ordinary "held" here as well

async function lock(name, ttl) {
  try {
    const granted = await locks.acquire([name], Number(ttl));
    return `ok ${granted.value}`;
  } catch {
    return "held";
  }
}

async function unlock(name, value) {
  try {
    await locks.release(new Lock(locks, [name], value, [], Date.now() + 60_000));
    return "ok";
  } catch {
    return "no"; // "already gone" counts as a failure there
  }
}

async function answer(line) {
  const [verb, ...rest] = line.trim().split(/\s+/);
  if (verb === "lock" && rest.length === 2) return lock(...rest);
  if (verb === "unlock" && rest.length === 2) return unlock(...rest);
  if (verb === "quit") process.exit(0);
  return "error unknown line";
}

async function main() {
  console.log("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(await answer(line));
  }
  process.exit(0);
}

main();
