/** A program in TypeScript that uses all of the client; package.test.js compiles it, and runs it against a real sidecar. */

import {
  BadRequest, Client, Election, Held, Hold, LockLost, LockView, NoQuorum, election, lock, lockAll, semaphore, withLock,
} from "quorlock-sidecar";

const client = new Client({ owner: "sample", timeoutMs: 20_000 });

// `await using` releases at the end of the block.
{
  await using lease = await lock("sample", { ttlMs: 10_000, waitMs: 30_000 });
  const held: Hold = lease;
  const fence: number = held.fence;
  held.signal.addEventListener("abort", () => {});
  const view: LockView = await client.status("sample");
  if (!view.held || view.fence !== fence) throw new Error("it is held");
  const error: unknown = await client.hold("sample", { waitMs: 0 }).catch((error: unknown) => error);
  if (!(error instanceof Held) || error.holder?.owner === undefined) throw new Error("it is held by us");
}
if ((await client.status("sample")).held) throw new Error("the block released it");

const answer: number = await withLock("sample", async (lease) => (lease.remaining() > 0 ? 42 : 0));
const other: string = await withLock("sample", { shared: true }, () => "read");
await using both = await lockAll(["sample:1", "sample:2"]);
const names: string[] = both.names;
await using permit = await semaphore("sample permits", 2);
const slot: number | null = permit.slot;
const chair: Election = election("sample election");
{
  await using led = await chair.campaign("a:1", { waitMs: 30_000 });
  const term: number = led.term;
  for await (const leader of chair.observe()) {
    if (leader !== null && leader.term !== term) throw new Error("another leads");
    break;
  }
}
const lease = await client.acquire("sample token", { ttlMs: 10_000 });
const longer = await client.extend(lease.name, lease.token, { ttlMs: 12_000, names: lease.names, slot: lease.slot });
const isReleased: boolean = await client.release(longer.name, longer.token);
const lost: unknown = await client.release(longer.name, longer.token).catch((error: unknown) => error);
if (!(lost instanceof LockLost) || lost instanceof NoQuorum || lost instanceof BadRequest) throw new Error("it is gone");

// What is wrong is found by the compiler.
// @ts-expect-error
const wrong = () => client.hold("sample", { ttl: 10 });
// @ts-expect-error
const text: string = both.fence;

console.log(answer, other, names.length, slot, isReleased, typeof text, typeof wrong);
