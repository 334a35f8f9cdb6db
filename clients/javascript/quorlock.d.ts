/// <reference lib="esnext.disposable" />
/** Locks from the quorlock sidecar. Times are milliseconds. */

import type { RequestOptions } from "node:https";

export interface ClientOptions {
  /** "http://127.0.0.1:7420" or "unix:/run/quorlock.sock"; else QUORLOCK_SIDECAR. */
  url?: string;
  /** Else QUORLOCK_SIDECAR_TOKEN. */
  token?: string;
  /** Who we are, for people who ask who holds a lock. */
  owner?: string;
  /** How long the sidecar may take beyond what it was asked to wait: 10 000. */
  timeoutMs?: number;
  /** For https: `ca`, `cert`, `key`. */
  tls?: Pick<RequestOptions, "ca" | "cert" | "key" | "servername">;
}

export interface LockOptions {
  ttlMs?: number;
  /** How long to wait at most: 10 000 for `hold`, 0 for `acquire`. */
  waitMs?: number;
  owner?: string;
  /** Why, for people who ask who holds it. */
  reason?: string;
  /** Together with others that share it. */
  shared?: boolean;
  /** Further names to hold together with it: all or none. */
  names?: string[];
  /** A permit of a semaphore with so many slots. */
  slots?: number;
  /** Stops the waiting. */
  signal?: AbortSignal;
}

/** What a lease covers; only another sidecar than the one that gave it needs it. */
export interface Covered {
  names?: readonly string[];
  slot?: number | null;
}

export interface Holder {
  owner: string;
  pid?: number | null;
  /** Unix time in milliseconds. */
  since?: number | null;
  reason?: string | null;
  foreign?: boolean;
}

/** One of those who share a lock. */
export interface Reader {
  owner: string;
  pid: number;
  /** Unix time in milliseconds. */
  since: number;
  reason: string | null;
  fence: number;
  /** Only for callers of scope `write`, and only from `status`. */
  token?: string;
}

/** A lock that was taken by token. Nobody extends it but you. */
export class Lease {
  private constructor();
  readonly name: string;
  /** All names that are held together; just `name`, unless there are several. */
  readonly names: string[];
  /** The slot of a permit. */
  readonly slot: number | null;
  /** null if it was extended by a sidecar that did not hand it out. */
  readonly mode: "exclusive" | "shared" | null;
  readonly token: string;
  /** Increases with every holder; null if it was extended by a sidecar that did not hand it out. */
  readonly fence: number | null;
  readonly ttlMs: number;
  readonly votes: number;
  readonly nodes: number;
  readonly quorum: number;
  /** For how long it is ours, counted from before the request. */
  remaining(): number;
  /** The same as `remaining()`. */
  readonly remainingMs: number;
  /** Throws LockLost if its time is over. */
  check(): void;
}

export interface NodeView {
  node: string;
  state: string;
  remaining_ms: number | null;
  holder: Holder | null;
  /** How many share it. */
  readers: number;
  cause: string | null;
}

export interface LockView {
  name: string;
  /** The semaphore and the number of the slot, if it is one. */
  semaphore?: string;
  slot?: number;
  held: boolean;
  /** null if it is free. */
  mode: "exclusive" | "shared" | null;
  /** Those who share it. */
  readers: Reader[];
  holder: Holder | null;
  fence: number | null;
  remainingMs: number | null;
  votes: number;
  nodes: number;
  quorum: number;
  waiters: number;
  here: boolean;
  /** Only for callers of scope `write`, and only from `status`. */
  token?: string;
  nodeViews: NodeView[];
}

/** A lock that is held while the connection is open. */
export class Hold implements AsyncDisposable {
  protected constructor();
  readonly name: string;
  /** All names that are held together; just `name`, unless there are several. */
  readonly names: string[];
  /** The slot of a permit, from 0; the fence belongs to it. */
  readonly slot: number | null;
  readonly token: string;
  /** Increases with every holder: let what the lock protects refuse smaller ones. */
  readonly fence: number;
  /** Aborts, with a LockLost as its reason, as soon as the lock is lost. */
  readonly signal: AbortSignal;
  readonly lost: boolean;
  /** For how long it is ours even if the sidecar says no more. */
  remaining(): number;
  /** The same as `remaining()`. */
  readonly remainingMs: number;
  /** Throws LockLost if the lock is not ours any more. */
  check(): void;
  /** Lets go, and waits until the sidecar has done so. */
  release(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A won election, until `release`. Stop leading when its signal aborts. */
export class Leadership extends Hold {
  /** What was published. */
  readonly value: string;
  /** Above that of every leader before. Send it with every command to followers. */
  readonly term: number;
}

/** Who leads an election. It may be old when you read it: compare terms, which only rise. */
export interface Leader {
  value: string;
  term: number;
  owner: string;
  pid: number;
  /** Unix time in milliseconds. */
  since: number;
}

/** One of several candidates leads at a time. */
export class Election {
  private constructor();
  readonly name: string;
  /** Waits until we lead, an hour at most if `waitMs` is left out, and publishes `value`. */
  campaign(value: string, options?: Pick<LockOptions, "ttlMs" | "waitMs" | "owner" | "signal">): Promise<Leadership>;
  /** Who leads now; null if nobody does. */
  leader(): Promise<Leader | null>;
  /**
   * The current leader, and each that follows, by rising terms; null when nobody leads any more. It ends only with an
   * error.
   */
  observe(options?: { after?: number; signal?: AbortSignal }): AsyncGenerator<Leader | null, never, void>;
}

export class Client {
  constructor(options?: ClientOptions);
  readonly url: string;
  /** Waits for the lock and keeps it until `release` of what it answers. */
  hold(name: string, options?: LockOptions): Promise<Hold>;
  /** Waits for all these locks together, at most 16, with one fence. */
  lockAll(names: string[], options?: Omit<LockOptions, "names" | "slots">): Promise<Hold>;
  /** Waits for a permit, of which there are `slots`. All clients must give the same number. */
  semaphore(name: string, slots: number, options?: Omit<LockOptions, "names" | "slots" | "shared">): Promise<Hold>;
  /** The election of that name. */
  election(name: string): Election;
  /** Runs `work` under the lock. */
  withLock<T>(name: string, work: (lease: Hold) => T | Promise<T>): Promise<T>;
  withLock<T>(name: string, options: LockOptions, work: (lease: Hold) => T | Promise<T>): Promise<T>;
  acquire(name: string, options?: LockOptions): Promise<Lease>;
  extend(name: string, token: string, options?: { ttlMs?: number } & Covered): Promise<Lease>;
  /** True if a majority confirmed it. */
  release(name: string, token: string, options?: Covered): Promise<boolean>;
  forceRelease(name: string, token: string, options?: Covered): Promise<boolean>;
  status(name: string): Promise<LockView>;
  list(): Promise<LockView[]>;
  overview(): Promise<Record<string, unknown>>;
}

export function lock(name: string, options?: LockOptions): Promise<Hold>;
export function lockAll(names: string[], options?: Omit<LockOptions, "names" | "slots">): Promise<Hold>;
export function semaphore(
  name: string,
  slots: number,
  options?: Omit<LockOptions, "names" | "slots" | "shared">,
): Promise<Hold>;
export function election(name: string): Election;
export function withLock<T>(name: string, work: (lease: Hold) => T | Promise<T>): Promise<T>;
export function withLock<T>(name: string, options: LockOptions, work: (lease: Hold) => T | Promise<T>): Promise<T>;

/** What went wrong, and what to do about it. */
export class QuorlockError extends Error {
  /** The sidecar's word for it. */
  readonly code: string;
  readonly status?: number;
  /** All that the sidecar said. */
  readonly problem: Record<string, unknown>;
}
export class Unreachable extends QuorlockError {}
export class Held extends QuorlockError {
  readonly holder: Holder | null;
  readonly remainingMs: number | null;
  /** Those who share the lock, if that keeps us out. */
  readonly readers: Reader[];
}
export class NamesHeld extends Held {
  /** Each name that is held, and by which client. */
  readonly held: { name: string; holder: Holder | null; readers: Reader[]; remainingMs: number | null }[];
}
export class NoPermit extends Held {}
export class SlotsDiffer extends QuorlockError {
  /** With how many slots the semaphore is in use. */
  readonly recorded: number | null;
}
export class WaitOver extends Held {}
export class LockLost extends QuorlockError {}
export class NoQuorum extends QuorlockError {
  readonly nodes: { node: string; said: string; cause: string | null }[];
}
export class TooSlow extends NoQuorum {}
export class Contended extends QuorlockError {}
export class TooManyWaiters extends QuorlockError {}
export class TooManyNames extends QuorlockError {}
export class Full extends QuorlockError {}
export class ShuttingDown extends QuorlockError {}
export class Unauthorized extends QuorlockError {}
export class Forbidden extends QuorlockError {}
export class BadRequest extends QuorlockError {}
