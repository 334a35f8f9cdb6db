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
  /** Stops the waiting. */
  signal?: AbortSignal;
}

export interface Holder {
  owner: string;
  pid?: number | null;
  /** Unix time in milliseconds. */
  since?: number | null;
  reason?: string | null;
  foreign?: boolean;
}

/** A lock that was taken by token. Nobody extends it but you. */
export class Lease {
  private constructor();
  readonly name: string;
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
  cause: string | null;
}

export interface LockView {
  name: string;
  held: boolean;
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
  private constructor();
  readonly name: string;
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

export class Client {
  constructor(options?: ClientOptions);
  readonly url: string;
  /** Waits for the lock and keeps it until `release` of what it answers. */
  hold(name: string, options?: LockOptions): Promise<Hold>;
  /** Runs `work` under the lock. */
  withLock<T>(name: string, work: (lease: Hold) => T | Promise<T>): Promise<T>;
  withLock<T>(name: string, options: LockOptions, work: (lease: Hold) => T | Promise<T>): Promise<T>;
  acquire(name: string, options?: LockOptions): Promise<Lease>;
  extend(name: string, token: string, options?: { ttlMs?: number }): Promise<Lease>;
  /** True if a majority confirmed it. */
  release(name: string, token: string): Promise<boolean>;
  forceRelease(name: string, token: string): Promise<boolean>;
  status(name: string): Promise<LockView>;
  list(): Promise<LockView[]>;
  overview(): Promise<Record<string, unknown>>;
}

export function lock(name: string, options?: LockOptions): Promise<Hold>;
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
