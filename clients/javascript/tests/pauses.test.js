/** Clients that stand still, against real sidecars and servers: they never count on a lock that is over. */

import assert from "node:assert/strict";
import { once } from "node:events";
import fs from "node:fs";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, LockLost } from "../quorlock.js";
import { Caller, Nodes, Recorder, Sidecar, Wires, otherBootClock } from "./kit.js";

/** No wait in here is meant to last so long; a loaded machine is. */
const LONG = 30_000;

let nodes, sidecar, client;

before(async () => {
  nodes = await Nodes.start();
  sidecar = await Sidecar.start(nodes);
  client = new Client({ url: sidecar.url });
});

after(async () => {
  await sidecar?.stop();
  await nodes?.stop();
});

async function until(isSo) {
  const start = Date.now();
  while (!(await isSo())) {
    assert.ok(Date.now() < start + LONG, "it did not come about");
    await sleep(10);
  }
}

test("a lease that ended before its answer was read has no time left", async (t) => {
  const first = await client.acquire("late", { ttlMs: 20_000 });
  const takes = `console.log((await client.acquire("late", { ttlMs: 2_000, waitMs: 60_000 })).remainingMs);`;
  const caller = new Caller(takes, sidecar.url);
  t.after(() => caller.stop());
  await until(async () => (await client.status("late")).waiters === 1);
  await caller.pause();
  await client.release("late", first.token);
  await until(async () => (await client.status("late")).fence > first.fence);
  const second = await client.acquire("late", { ttlMs: 20_000, waitMs: LONG });
  caller.resume();
  assert.equal(await caller.line(), "0");
  second.check();
  await client.release("late", second.token);
});

test("a lease counts down, and has the time that it has after a wait", async () => {
  const first = await client.acquire("waited", { ttlMs: 3_000 });
  first.check();
  assert.ok(first.remaining() > 2_000 && first.remaining() < 3_000);
  const second = await client.acquire("waited", { ttlMs: 20_000, waitMs: LONG });
  assert.ok(second.remaining() > 18_000 && second.remaining() < 20_000, String(second.remaining()));
  assert.equal(first.remaining(), 0);
  assert.throws(() => first.check(), LockLost);
  await client.release("waited", second.token);
});

test("a sidecar with another boot clock serves as well", async (t) => {
  const recorder = await Recorder.start(sidecar.url, otherBootClock);
  t.after(() => recorder.stop());
  const far = new Client({ url: recorder.url });
  const first = await far.acquire("far", { ttlMs: 2_000 });
  const second = await far.acquire("far", { ttlMs: 20_000, waitMs: LONG });
  assert.equal(first.remaining(), 0);
  assert.ok(second.remaining() > 18_000 && second.remaining() < 20_000, String(second.remaining()));
  const hold = await far.hold("far-hold", { ttlMs: 4_000 });
  await sleep(5_000);
  hold.check();
  assert.ok(hold.remaining() < 4_000);
  await hold.release();
  await far.release("far", second.token);
});

test("an event that was read late extends nothing", async (t) => {
  const frozen = await Sidecar.start(nodes);
  t.after(() => frozen.stop());
  const recorder = await Recorder.start(frozen.url);
  t.after(() => recorder.stop());
  const holds = `
    const hold = await client.hold("stale", { ttlMs: 6_000 });
    console.log("held");
    process.stdin.once("data", () => {
      let passed = 0;
      for (const end = Date.now() + 500; Date.now() < end; ) try { hold.check(); passed++; } catch {}
      console.log(passed, hold.remainingMs);
      process.exit();
    });`;
  const caller = new Caller(holds, recorder.url);
  t.after(() => caller.stop());
  assert.equal(await caller.line(), "held");
  await caller.pause();
  const extensions = () => recorder.answered.split("event: extended").length;
  const before = extensions();
  await until(() => extensions() > before);
  frozen.child.kill("SIGSTOP");
  // A pause that ends before the deadline that the caller knows of: it goes on, and reads the event then.
  await sleep(1_500);
  caller.resume();
  const next = await client.hold("stale", { waitMs: LONG });
  caller.child.stdin.write("check\n");
  assert.equal(await caller.line(), "0 0");
  next.check();
  await next.release();
});

test("a machine that slept over the deadline aborts the signal soon after it wakes", async (t) => {
  const hold = await client.hold("slept", { ttlMs: 30_000 });
  const read = fs.readSync;
  t.after(() => (fs.readSync = read));
  // The clock of the machine went on for an hour, and that of timers did not.
  fs.readSync = (file, bytes, ...where) => {
    const uptime = Number.parseFloat(bytes.toString("latin1", 0, read(file, bytes, ...where)));
    return bytes.write((uptime + 3600).toFixed(2), "latin1");
  };
  await once(hold.signal, "abort", { signal: AbortSignal.timeout(6_000) });
  assert.throws(() => hold.check(), LockLost);
  await hold.release();
});

test("a hold is lost when its last deadline is over, even if comments come", async (t) => {
  const wires = await Wires.start(nodes, 3);
  t.after(() => wires.cut());
  const frozen = await Sidecar.start(wires);
  t.after(() => frozen.stop());
  const recorder = await Recorder.start(frozen.url);
  t.after(() => recorder.stop());
  const hold = await new Client({ url: recorder.url }).hold("commented", { ttlMs: 6_000 });
  const lost = once(hold.signal, "abort");
  wires.cut();
  await until(() => recorder.answered.split("event: extended").pop().split(": alive\n").length > 4);
  frozen.child.kill("SIGSTOP");
  const next = await client.hold("commented", { waitMs: LONG });
  assert.equal(hold.remainingMs, 0);
  assert.throws(() => hold.check(), LockLost);
  await lost;
  frozen.child.kill("SIGKILL");
  await Promise.all([next.release(), hold.release()]);
});
