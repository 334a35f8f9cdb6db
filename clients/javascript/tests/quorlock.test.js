/** The JavaScript client against real sidecars and real servers: node --test clients/javascript/tests/ */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import path from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import * as quorlock from "../quorlock.js";
import {
  BadRequest, Client, Held, LockLost, NamesHeld, NoPermit, NoQuorum, SlotsDiffer, TooManyNames, TooManyWaiters, Unauthorized,
  Unreachable, WaitOver,
} from "../quorlock.js";
import { Nodes, Recorder, Sidecar } from "./kit.js";

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

const aborted = (lease) => (lease.lost ? undefined : once(lease.signal, "abort"));

async function until(isSo) {
  const start = Date.now();
  while (!(await isSo())) {
    assert.ok(Date.now() < start + LONG, "it did not come about");
    await sleep(10);
  }
}

test("one holds it and the other is told who", async () => {
  const lease = await client.hold("one", { ttlMs: 20_000, owner: "ann", reason: "a test" });
  lease.check();
  assert.ok(lease.remainingMs > 10_000);
  await assert.rejects(client.hold("one", { waitMs: 0 }), (error) => {
    assert.ok(error instanceof Held && !(error instanceof WaitOver));
    assert.deepEqual([error.holder.owner, error.holder.reason, error.status], ["ann", "a test", 409]);
    return true;
  });
  await assert.rejects(client.hold("one", { waitMs: 200 }), WaitOver);
  await lease.release();
  await lease.release();
  assert.equal(lease.lost, false);
  await (await client.hold("one", { waitMs: 0 })).release();
});

test("whoever waits gets it next, with a larger fence", async () => {
  const first = await client.hold("next");
  const second = client.hold("next", { waitMs: LONG });
  await until(async () => (await client.status("next")).waiters === 1);
  await first.release();
  const lease = await second;
  assert.ok(lease.fence > first.fence);
  await lease.release();
});

test("readers share, and keep a writer out", async () => {
  const ann = await client.hold("shared", { shared: true, owner: "ann" });
  await client.withLock("shared", { shared: true, owner: "bob" }, async () => {
    await assert.rejects(client.hold("shared", { waitMs: 0 }), (error) => {
      assert.ok(error instanceof Held);
      assert.deepEqual(error.readers.map((reader) => reader.owner), ["ann", "bob"]);
      return true;
    });
    const found = await client.status("shared");
    assert.deepEqual([found.mode, found.holder, found.readers.length], ["shared", null, 2]);
  });
  await ann.release();
  await (await client.hold("shared", { waitMs: LONG })).release();
});

test("several names are held together or not at all", async () => {
  const both = await client.lockAll(["set b", "set/a"], { owner: "ann" });
  assert.deepEqual([both.name, both.names], ["set b", ["set b", "set/a"]]);
  await assert.rejects(client.lockAll(["set c", "set/a"], { waitMs: 0 }), (error) => {
    assert.ok(error instanceof NamesHeld);
    assert.deepEqual(error.held.map((one) => [one.name, one.holder.owner]), [["set/a", "ann"]]);
    return true;
  });
  assert.equal((await client.status("set c")).held, false);
  await both.release();
  await (await client.lockAll(["set/a"], { waitMs: LONG })).release();
  await assert.rejects(client.lockAll([]), TypeError);
  await assert.rejects(client.lockAll(["twice", "twice"]), BadRequest);
  await assert.rejects(client.lockAll(Array.from({ length: 17 }, (_, i) => `set-${i}`)), BadRequest);
});

test("permits are never more than slots", async () => {
  let holding = 0;
  const worker = async () => {
    for (let i = 0; i < 3; i++) {
      await client.withLock("slots", { slots: 2, waitMs: LONG }, async () => {
        assert.ok(++holding <= 2);
        await sleep(5);
        holding--;
      });
    }
  };
  await Promise.all(Array.from({ length: 5 }, worker));
  const [one, two] = [await client.semaphore("slots", 2, { waitMs: LONG }), await client.semaphore("slots", 2, { waitMs: LONG })];
  assert.deepEqual([one.slot, two.slot].sort(), [0, 1]);
  await assert.rejects(client.semaphore("slots", 2, { waitMs: 0 }), NoPermit);
  await assert.rejects(client.semaphore("slots", 3, { waitMs: 0 }), (error) => error instanceof SlotsDiffer && error.recorded === 2);
  await one.release();
  await two.release();
  await assert.rejects(client.semaphore("slots", 0), BadRequest);
  await assert.rejects(client.semaphore("slots", 1025), BadRequest);
});

test("leases by token cover readers, sets and permits, at another sidecar, too", async () => {
  const other = await Sidecar.start(nodes);
  try {
    const wanted = [{ shared: true }, { names: ["token-b"] }, { slots: 3 }];
    for (const [number, how] of wanted.entries()) {
      for (const elsewhere of [client, new Client({ url: other.url })]) {
        // Released elsewhere, a name stays claimed here until its deadline: so each has its own.
        const { name, token, fence, names, slot } = await client.acquire(`token-${number}`, { ttlMs: 20_000, ...how });
        const longer = await elsewhere.extend(name, token, { ttlMs: 25_000, names, slot });
        assert.deepEqual([longer.fence, longer.names, longer.slot], [fence, names, slot]);
        assert.equal(await elsewhere.release(name, token, { names, slot }), true);
        await assert.rejects(client.extend(name, token), LockLost);
      }
    }
  } finally {
    await other.stop();
  }
});

test("one leads after another, and followers see it", async () => {
  const election = client.election("chair/1");
  assert.equal(await election.leader(), null);
  const leaders = election.observe();
  const first = await election.campaign("a:1", { owner: "ann" });
  const found = await election.leader();
  assert.deepEqual([found.value, found.term, found.owner], ["a:1", first.term, "ann"]);
  assert.equal((await leaders.next()).value.term, first.term);
  const campaigning = election.campaign("b:2");
  await until(async () => (await client.status("chair/1")).waiters === 1);
  await assert.rejects(election.campaign("c:3", { waitMs: 0 }), Held);
  await first.release();
  const second = await campaigning;
  assert.ok(second.term > first.term && second.value === "b:2");
  let { value: seen } = await leaders.next();
  if (seen === null) seen = (await leaders.next()).value; // nobody led for a moment
  assert.deepEqual([seen.value, seen.term], ["b:2", second.term]);
  await second.release();
  assert.equal((await leaders.next()).value, null);
  await leaders.return();
  await assert.rejects(election.campaign(""), BadRequest);
  const abort = new AbortController();
  const later = election.observe({ after: second.term, signal: abort.signal });
  assert.equal((await later.next()).value, null);
  const ended = later.next();
  setTimeout(() => abort.abort(), 100);
  await assert.rejects(ended, { name: "AbortError" });
});

test("waiting ends with the caller's signal, and leaves no lock behind", async () => {
  const lease = await client.hold("given-up");
  const abort = new AbortController();
  const waiting = client.hold("given-up", { waitMs: LONG, signal: abort.signal });
  await until(async () => (await client.status("given-up")).waiters === 1);
  abort.abort();
  await assert.rejects(waiting, { name: "AbortError" });
  await lease.release();
  await (await client.hold("given-up", { waitMs: LONG })).release();
});

test("withLock gives the result, passes errors on and lets go", async () => {
  assert.equal(await client.withLock("work", async (lease) => lease.fence > 0), true);
  await assert.rejects(
    client.withLock("work", { ttlMs: 5_000 }, async () => {
      throw new RangeError("of the work");
    }),
    RangeError,
  );
  assert.equal((await client.status("work")).held, false);
});

test("forced away it is lost: the signal aborts and withLock throws", async () => {
  const operator = new Client({ url: sidecar.unix });
  const working = client.withLock("forced", { ttlMs: 6_000 }, async (lease) => {
    const { token } = await operator.status("forced");
    assert.equal(await operator.forceRelease("forced", token), true);
    await aborted(lease);
    assert.ok(lease.signal.reason instanceof LockLost);
    assert.equal(lease.remainingMs, 0);
    assert.throws(() => lease.check(), LockLost);
  });
  await assert.rejects(working, LockLost);
});

test("the limits of the sidecar have their own errors", async (t) => {
  const small = await Sidecar.start(nodes, "--max-waiters", "1", "--max-new-names", "1");
  t.after(() => small.stop());
  const caller = new Client({ url: small.url });
  const lease = await caller.hold("limited");
  const waiting = caller.hold("limited", { waitMs: LONG });
  await until(async () => (await caller.status("limited")).waiters === 1);
  await assert.rejects(caller.acquire("limited", { waitMs: 1_000 }), TooManyWaiters);
  await lease.release();
  await (await waiting).release();
  await assert.rejects(async () => {
    for (let number = 0; number < 200; number += 1) await caller.acquire(`limited-${number}`, { ttlMs: 1_000 });
  }, TooManyNames);
});

test("it is lost when most nodes die", async (t) => {
  const mortal = await Nodes.start();
  t.after(() => mortal.stop());
  const ours = await Sidecar.start(mortal);
  t.after(() => ours.stop());
  const caller = new Client({ url: ours.url });
  const lease = await caller.hold("mortal", { ttlMs: 3_000 });
  mortal.kill(3);
  await aborted(lease);
  await lease.release();
  await assert.rejects(caller.acquire("mortal"), (error) => error instanceof NoQuorum && error.nodes.length === 5);
});

for (const signal of ["SIGKILL", "SIGTERM"]) {
  test(`a sidecar that ends by ${signal} is noticed`, async (t) => {
    const mortal = await Sidecar.start(nodes);
    t.after(() => mortal.stop());
    const caller = new Client({ url: mortal.url });
    const lease = await caller.hold("orphan", { ttlMs: 4_000, waitMs: LONG });
    const start = Date.now();
    mortal.child.kill(signal);
    await aborted(lease);
    assert.ok(Date.now() - start < 10_000);
    assert.throws(() => lease.check(), LockLost);
    await lease.release();
    await mortal.stop();
    await assert.rejects(caller.acquire("orphan"), Unreachable);
  });
}

test("a frozen sidecar is given up before others have the lock", async (t) => {
  const frozen = await Sidecar.start(nodes);
  t.after(() => frozen.stop());
  const lease = await new Client({ url: frozen.url }).hold("frozen", { ttlMs: 2_000 });
  frozen.child.kill("SIGSTOP");
  const next = await client.hold("frozen", { waitMs: LONG });
  assert.deepEqual([lease.lost, lease.remainingMs], [true, 0]);
  assert.ok(next.fence > lease.fence);
  frozen.child.kill("SIGKILL");
  await Promise.all([lease.release(), next.release()]);
});

test("a killed holder frees it at once", async () => {
  const module = path.join(path.dirname(fileURLToPath(import.meta.url)), "../quorlock.js");
  const script = `import { Client } from ${JSON.stringify(module)};
    await new Client({ url: ${JSON.stringify(sidecar.url)} }).hold("killed", { ttlMs: 30_000 });
    console.log("held"); setInterval(() => {}, 1000);`;
  const words = ["--input-type=module", "-e", script];
  const holder = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit"] });
  await once(holder.stdout, "data");
  holder.kill("SIGKILL");
  const start = Date.now();
  await (await client.hold("killed", { waitMs: LONG })).release();
  assert.ok(Date.now() - start < 10_000, "far below the ttl of 30 s");
});

test("taken, extended and released by token", async () => {
  const lease = await client.acquire("token", { ttlMs: 20_000, reason: "by token" });
  assert.match(lease.token, /^[0-9a-f]{32}$/);
  const longer = await client.extend("token", lease.token, { ttlMs: 25_000 });
  assert.equal(longer.fence, lease.fence);
  assert.ok(longer.remainingMs > 20_000);
  const found = await client.status("token");
  assert.deepEqual([found.held, found.fence, found.holder.reason, found.token], [true, lease.fence, "by token", undefined]);
  assert.equal(await client.release("token", lease.token), true);
  await assert.rejects(client.release("token", lease.token), LockLost);
  await assert.rejects(client.extend("token", lease.token), LockLost);
});

test("any name is a name", async () => {
  for (const name of ["Straße/東京 #1?%20&x=y", "a/b/../c", ".", "..", "🔒", "%", " ", "x".repeat(512)]) {
    const lease = await client.hold(name, { reason: "für alle" });
    assert.equal((await client.status(name)).name, name);
    await lease.release();
  }
  assert.ok(Array.isArray(await client.list()));
});

test("what cannot be used is told apart", async () => {
  for (const [call, code] of [
    [() => client.acquire("tab\t"), "bad_name"],
    [() => client.acquire("x".repeat(513)), "bad_name"],
    [() => client.acquire("x", { ttlMs: 0 }), "bad_ttl"],
    [() => client.hold("x", { ttlMs: 0 }), "bad_ttl"],
    [() => client.acquire("x", { ttlMs: "soon" }), "bad_request"],
    [() => client.extend("x", "no token"), "bad_token"],
  ]) {
    await assert.rejects(call, (error) => error instanceof BadRequest && error.code === code && error.status === 400);
  }
  for (const url of ["localhost:7420", "ftp://x", "unix:relative", "http://x/path", "http://user:secret@x"]) {
    assert.throws(() => new Client({ url }), (error) => error instanceof TypeError && !/secret/.test(error.message));
  }
  await assert.rejects(client.withLock("x"), TypeError);
  await assert.rejects(new Client({ url: sidecar.url, token: "guessed-guessed" }).acquire("x"), Unauthorized);
  await assert.rejects(new Client({ url: "http://127.0.0.1:1" }).acquire("x"), Unreachable);
  await assert.rejects(new Client({ url: "unix:/nowhere/at/all.sock" }).hold("x"), Unreachable);
});

test("tokens are never in addresses", async (t) => {
  const seen = [];
  const recorder = http.createServer((request, answer) => {
    seen.push(request.url);
    const headers = { ...request.headers, host: new URL(sidecar.url).host };
    const onward = http.request(sidecar.url + request.url, { method: request.method, headers, agent: false }, (said) => {
      answer.writeHead(said.statusCode, said.headers);
      said.pipe(answer);
    });
    request.pipe(onward);
    answer.on("close", () => onward.destroy());
  });
  recorder.listen(0, "127.0.0.1");
  await once(recorder, "listening");
  t.after(() => recorder.close());
  const through = new Client({ url: `http://127.0.0.1:${recorder.address().port}` });
  const hold = await through.hold("seen");
  await hold.release();
  const lease = await through.acquire("seen", { waitMs: LONG });
  await through.extend("seen", lease.token);
  await through.release("seen", lease.token);
  assert.equal(seen.length, 4);
  for (const url of seen) assert.ok(!url.includes(hold.token) && !url.includes(lease.token), url);
});

test("calls share a connection until it ends", async (t) => {
  const recorder = await Recorder.start(sidecar.url);
  t.after(() => recorder.stop());
  const through = new Client({ url: recorder.url });
  for (let turn = 0; turn < 3; turn++) {
    const lease = await through.acquire("shared connection");
    await through.release("shared connection", lease.token);
  }
  await assert.rejects(through.acquire("tab\t"), BadRequest);
  assert.equal(recorder.connections, 1);
  recorder.cut();
  const lease = await through.acquire("shared connection", { ttlMs: LONG });
  await through.extend("shared connection", lease.token);
  const before = recorder.connections;
  assert.ok(before > 1);
  // It ends at the moment of the next request.
  recorder.endsAtSecond = true;
  await through.release("shared connection", lease.token);
  assert.equal(recorder.connections, before + 1);
});

test("200 holds at the same time lose no update", async (t) => {
  const file = path.join(sidecar.dir, "counter");
  writeFileSync(file, "0");
  const fences = [];
  const countUp = () =>
    client.withLock("crowd", { ttlMs: 20_000, waitMs: 60_000 }, async (lease) => {
      const before = Number(readFileSync(file, "utf8"));
      await sleep(1);
      writeFileSync(file, String(before + 1));
      fences.push(lease.fence);
    });
  await Promise.all(Array.from({ length: 200 }, countUp));
  assert.equal(readFileSync(file, "utf8"), "200");
  assert.deepEqual(fences, [...new Set(fences)].sort((a, b) => a - b));
});

test("the environment names the sidecar, and a block can end it", async () => {
  process.env.QUORLOCK_SIDECAR = sidecar.unix;
  try {
    const lease = await quorlock.lock("environment");
    await lease[Symbol.asyncDispose]();
    assert.equal(await quorlock.withLock("environment", { waitMs: 0 }, () => "mine"), "mine");
  } finally {
    delete process.env.QUORLOCK_SIDECAR;
  }
});
