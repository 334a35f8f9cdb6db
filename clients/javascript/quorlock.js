/**
 * Locks from the quorlock sidecar (`quorlock serve`), with nothing but Node (18 or newer) itself.
 *
 *     import { withLock } from "./quorlock.js";
 *
 *     await withLock("invoice:42", { ttlMs: 30_000, waitMs: 10_000 }, async (lease) => {
 *       await pay({ fence: lease.fence, signal: lease.signal }); // `signal` aborts as soon as the lock is lost
 *       lease.check(); // throws LockLost if it is not ours any more
 *     });
 *
 *     await withLock("config", { shared: true }, read);        // any number of readers, or one writer
 *     const both = await lockAll(["account:1", "account:2"]);  // all or none, one fence
 *     const permit = await semaphore("gpu", 4);                // at most 4; `permit.slot` says which
 *     const led = await election("scheduler").campaign("10.0.0.7:80"); // leads until `led.release()`
 *
 * The lock is held while the connection to the sidecar is open, and free the moment this process is gone. Where one
 * connection cannot last as long as the lock, `acquire`, `extend` and `release` of a `Client` do it by token.
 *
 * The sidecar is named by `new Client({ url })`, else by QUORLOCK_SIDECAR ("http://127.0.0.1:7420" or
 * "unix:/run/quorlock.sock"), and its token by `new Client({ token })`, else by QUORLOCK_SIDECAR_TOKEN.
 *
 * Time is read from /proc/uptime, which goes on while the machine sleeps. Without that file it is `performance.now()`,
 * which goes on as well on macOS and Windows. It does not on a Linux without /proc: there, let a machine that sleeps take
 * no locks.
 */

import fs from "node:fs";
import http from "node:http";
import https from "node:https";

const DEFAULT_URL = "http://127.0.0.1:7420";
/** The sidecar says something every 5 s while a lock is held. Silence for longer means that it is gone. */
const SILENCE_MS = 15_000;
/** /proc/uptime has hundredths of a second, rounded down: the time is this much later at most. */
const TICK_MS = 10;
/**
 * The clocks of two machines may run apart by this much of the time that they measure. A sidecar belongs on the machine
 * of its callers; on another a hold ends for us after about a thousand ttls.
 */
const DRIFT = 0.001;
/** The most that one answer or event may have. */
const LONGEST = 16 << 20;
/** How long a candidate campaigns at most with one request. */
const LONGEST_WAIT_MS = 3_600_000;
/** How long the sidecar may take to let go. */
const LET_GO_MS = 2_000;
/** How many idle connections a client keeps for its next requests, and for how long. The sidecar closes them after 30 s. */
const MOST_IDLE = 16;
const LONGEST_IDLE_MS = 20_000;
/** Why a hold is lost whose time is over. */
const OVER = "its time ran out and the sidecar did not extend it";
/** How a connection fails that the other end has closed. */
const CLOSED = new Set(["ECONNRESET", "EPIPE"]);
/** Timers stand still while the machine sleeps, so the deadline is looked at once a second. */
const LONGEST_TIMER_MS = 1_000;

// Node before 18.18 has no such symbol. Compilers that translate `await using` look for it there.
if (!Symbol.asyncDispose) {
  Object.defineProperty(Symbol, "asyncDispose", { value: Symbol("Symbol.asyncDispose") });
}

/** What went wrong, and what to do about it. `code` is the sidecar's word for it. */
export class QuorlockError extends Error {
  /** @param {string} detail */
  constructor(detail, { code = "unknown", status = undefined, problem = {}, cause = undefined } = {}) {
    super(detail, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = problem.code ?? code;
    this.status = status;
    /** All that the sidecar said. */
    this.problem = problem;
  }
}

/** The sidecar does not answer. */
export class Unreachable extends QuorlockError {}
/** Another client has the lock. */
export class Held extends QuorlockError {
  get holder() {
    return this.problem.holder ?? null;
  }
  get remainingMs() {
    return this.problem.remaining_ms ?? null;
  }
  /** Those who share the lock, if that keeps us out. */
  get readers() {
    return this.problem.readers ?? [];
  }
}
/** Others have some of the names. */
export class NamesHeld extends Held {
  /** Each name that is held, with its `holder` or `readers`. */
  get held() {
    return (this.problem.held ?? []).map(({ remaining_ms: remainingMs = null, ...rest }) => ({ ...rest, remainingMs }));
  }
}
/** All slots of the semaphore are taken. */
export class NoPermit extends Held {}
/** The semaphore is in use with another number of slots. */
export class SlotsDiffer extends QuorlockError {
  get recorded() {
    return this.problem.recorded ?? null;
  }
}
/** The lock did not become free in time. */
export class WaitOver extends Held {}
/** Several clients want the lock, and none has a majority. Try again: perhaps no client does the work. */
export class Contended extends QuorlockError {}
/** The lock is not ours any more, or never was. Stop what it protected. */
export class LockLost extends QuorlockError {}
/** Too few nodes can vote, so no client gets a lock. */
export class NoQuorum extends QuorlockError {
  get nodes() {
    return this.problem.nodes ?? [];
  }
}
/** The nodes answered, but too late for the lock to be of any use. */
export class TooSlow extends NoQuorum {}
/** Too many calls wait for locks already. Try later. */
export class TooManyWaiters extends QuorlockError {}
/** Too many new names in a short time. Try later, or use fewer different names. */
export class TooManyNames extends QuorlockError {}
/** The sidecar has as many connections or sessions as it may. */
export class Full extends QuorlockError {}
/** The sidecar ends. Ask another, or again when it is back. */
export class ShuttingDown extends QuorlockError {}
/** A token is needed, or it is wrong. */
export class Unauthorized extends QuorlockError {}
/** The token does not allow it. */
export class Forbidden extends QuorlockError {}
/** The name, the ttl, the token or something else cannot be used: `code` says which. */
export class BadRequest extends QuorlockError {}

const BY_CODE = {
  held: Held,
  names_held: NamesHeld,
  no_permit: NoPermit,
  slots_differ: SlotsDiffer,
  wait_over: WaitOver,
  contended: Contended,
  lost: LockLost,
  no_quorum: NoQuorum,
  too_slow: TooSlow,
  too_many_waiters: TooManyWaiters,
  too_many_names: TooManyNames,
  full: Full,
  shutting_down: ShuttingDown,
  unauthorized: Unauthorized,
  forbidden: Forbidden,
  bad_request: BadRequest,
  bad_name: BadRequest,
  bad_token: BadRequest,
  bad_ttl: BadRequest,
};

/** Where the sidecar is, and who asks. */
export class Client {
  #target;
  #agent;
  #token;
  #owner;
  #timeoutMs;

  constructor({ url, token, owner, timeoutMs = 10_000, tls = {} } = {}) {
    this.url = url ?? (process.env.QUORLOCK_SIDECAR || DEFAULT_URL);
    this.#target = target(this.url, tls);
    const { Agent } = this.#target.module;
    this.#agent = new Agent({ keepAlive: true, maxFreeSockets: MOST_IDLE, timeout: LONGEST_IDLE_MS });
    this.#token = token ?? (process.env.QUORLOCK_SIDECAR_TOKEN || undefined);
    this.#owner = owner;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Waits for the lock and keeps it until `release` of what it answers. `shared`: together with others that share it.
   * `names`: further ones to hold together with it. `slots`: a permit of a semaphore with so many slots.
   */
  async hold(name, { ttlMs, waitMs, owner = this.#owner, reason, shared, names, slots, signal } = {}) {
    const wanted = { ttl_ms: ttlMs, wait_ms: waitMs, owner, reason, mode: mode(shared), names, slots };
    return await this.#open(Hold, name, `${path(name)}/hold`, wanted, waitMs ?? 10_000, signal);
  }

  /** Waits for all these locks together, at most 16, with one fence; `release` lets go of all of them. */
  async lockAll(names, options = {}) {
    if (!Array.isArray(names) || names.length === 0) throw new TypeError("lockAll takes an array of 1 to 16 names");
    return await this.hold(names[0], { ...options, names: names.length > 1 ? names.slice(1) : undefined });
  }

  /** Waits for a permit, of which there are `slots`. All clients must give the same number. */
  async semaphore(name, slots, options = {}) {
    return await this.hold(name, { ...options, slots });
  }

  /** The election of that name: one of its candidates leads at a time. */
  election(name) {
    return new Election(name, {
      campaign: async (value, { ttlMs, waitMs = LONGEST_WAIT_MS, owner = this.#owner, signal } = {}) => {
        const wanted = { value, ttl_ms: ttlMs, wait_ms: waitMs, owner };
        return await this.#open(Leadership, name, `${path(name, "elections")}/campaign`, wanted, waitMs, signal);
      },
      leader: async () => (await this.#ask("GET", path(name, "elections"))).leader,
      observe: (after, signal) => {
        const where = `${path(name, "elections")}/observe${queryOf({ after })}`;
        return this.#send("GET", where, undefined, { signal });
      },
    });
  }

  /** Opens a stream that holds what it is asked for. */
  async #open(Kind, name, where, wanted, waitMs, signal) {
    const timeoutMs = this.#timeoutMs + waitMs;
    const asked = now();
    const answer = await this.#send("GET", `${where}${queryOf(wanted)}`, undefined, { timeoutMs, signal });
    if (answer.statusCode !== 200) throw problem(answer, await text(answer));
    return await Kind.begin(name, answer, asked, signal);
  }

  /** Runs `work` under the lock. Throws LockLost if the lock was lost meanwhile and nothing else went wrong. */
  async withLock(name, ...rest) {
    const work = rest.pop();
    if (typeof work !== "function") throw new TypeError("withLock(name, [options], work): work is a function");
    const lease = await this.hold(name, rest[0]);
    let result;
    try {
      result = await work(lease);
      lease.check();
    } finally {
      await lease.release();
    }
    return result;
  }

  /** Takes the lock for one ttl. Extend it in time, and release it: it does not end with this process. */
  async acquire(name, { ttlMs, waitMs = 0, owner = this.#owner, reason, shared, names, slots, signal } = {}) {
    const body = { ttl_ms: ttlMs, wait_ms: waitMs, owner, reason, mode: mode(shared), names, slots };
    const asked = now();
    return new Lease(await this.#post(name, "acquire", body, { waitMs, signal }), asked);
  }

  /**
   * Keeps it for one ttl from now. Throws LockLost if it is not held under that token. `names` and `slot` are those of
   * the lease; only another sidecar than the one that gave it needs them.
   */
  async extend(name, token, { ttlMs, names, slot } = {}) {
    const asked = now();
    const body = { token, ttl_ms: ttlMs, ...covered(name, names, slot) };
    return new Lease(await this.#post(name, "extend", body), asked);
  }

  /** Lets go. True if a majority confirmed it; otherwise its time runs out. Throws LockLost if it was gone. */
  async release(name, token, { names, slot } = {}) {
    const body = { token, ...covered(name, names, slot) };
    return (await this.#post(name, "release", body)).outcome === "released";
  }

  /** Takes the lock away from who holds it under that token, which `status` shows to scope `write`. */
  async forceRelease(name, token, { names, slot } = {}) {
    const body = { token, ...covered(name, names, slot) };
    return (await this.#post(name, "force-release", body)).outcome === "released";
  }

  /** Who holds it, also if nobody does. */
  async status(name) {
    return view(await this.#ask("GET", path(name)));
  }

  /** The locks that are held. */
  async list() {
    return (await this.#ask("GET", "/v1/locks")).locks.map(view);
  }

  /** Nodes, locks and warnings, as the sidecar's dashboard shows them. */
  async overview() {
    return await this.#ask("GET", "/v1/overview");
  }

  #post(name, verb, body, { waitMs = 0, signal } = {}) {
    const timeoutMs = this.#timeoutMs + waitMs;
    return this.#ask("POST", `${path(name)}/${verb}`, body, { timeoutMs, signal });
  }

  async #ask(method, where, body, how) {
    const answer = await this.#send(method, where, body, { ...how, agent: this.#agent });
    const said = await text(answer);
    if (answer.statusCode !== 200) throw problem(answer, said);
    return json(answer, said);
  }

  /** Sends a request and waits for the head of the answer. Without an agent it has a connection of its own. */
  #send(method, where, body, { timeoutMs = this.#timeoutMs, signal, agent = false } = {}) {
    const headers = {};
    if (this.#token) headers.authorization = `Bearer ${this.#token}`;
    const data = body === undefined ? undefined : JSON.stringify(body);
    if (data !== undefined) {
      headers["content-type"] = "application/json";
      headers["content-length"] = Buffer.byteLength(data);
    }
    const { module, options } = this.#target;
    return new Promise((resolve, reject) => {
      const request = module.request({ ...options, method, path: where, headers, agent, signal, timeout: timeoutMs });
      request.on("timeout", () => request.destroy(new Error("no answer in time")));
      request.on("response", resolve);
      request.on("error", (error) => {
        if (signal?.aborted) reject(signal.reason);
        // The sidecar closes an idle connection without having read the request. A new one gets the answer.
        else if (request.reusedSocket && CLOSED.has(error.code)) {
          resolve(this.#send(method, where, body, { timeoutMs, signal }));
        } else reject(this.#unreachable(error));
      });
      request.end(data);
    });
  }

  #unreachable(cause) {
    const detail = `the sidecar at ${this.url} does not answer: ${cause.message || cause.code}`;
    return new Unreachable(detail, { code: "unreachable", cause });
  }
}

/** `new Client().hold(...)`: a lock from the sidecar that the environment names. */
export function lock(name, options) {
  return new Client().hold(name, options);
}

/** `new Client().lockAll(...)`. */
export function lockAll(names, options) {
  return new Client().lockAll(names, options);
}

/** `new Client().semaphore(...)`. */
export function semaphore(name, slots, options) {
  return new Client().semaphore(name, slots, options);
}

/** `new Client().election(...)`. */
export function election(name) {
  return new Client().election(name);
}

/** `new Client().withLock(...)`. */
export function withLock(name, ...rest) {
  return new Client().withLock(name, ...rest);
}

/** A lock that was taken by token. Nobody extends it but you. */
export class Lease {
  #deadline;

  /** `asked` is from before the request was sent. */
  constructor(answer, asked) {
    this.name = answer.name;
    /** All names that are held together; just `name`, unless there are several. */
    this.names = answer.names ?? [answer.name];
    /** The slot of a permit. */
    this.slot = answer.slot ?? null;
    /** "exclusive" or "shared"; null if it was extended by a sidecar that did not hand it out. */
    this.mode = answer.mode ?? null;
    this.token = answer.token;
    /** Increases with every holder; null if it was extended by a sidecar that did not hand it out. */
    this.fence = answer.fence ?? null;
    this.ttlMs = answer.ttl_ms;
    this.votes = answer.votes;
    this.nodes = answer.nodes;
    this.quorum = answer.quorum;
    this.#deadline = endOf(answer, asked);
  }

  /** For how many milliseconds it is ours. Counted from before the request, however late the answer was read. */
  remaining() {
    return until(this.#deadline);
  }

  /** The same as `remaining()`. */
  get remainingMs() {
    return this.remaining();
  }

  /** Throws LockLost if its time is over. Call it before every step that must not go wrong. */
  check() {
    if (this.remaining() === 0) throw new LockLost(`the lease of lock \`${this.name}\` is over`, { code: "lost" });
  }
}

/** A lock that is held while the connection is open. */
export class Hold {
  #answer;
  #asked;
  #abort = new AbortController();
  #deadline = 0;
  #timer;
  #isReleased = false;
  #ended;

  /** Waits for the first event of the stream. */
  static async begin(name, answer, asked, signal) {
    const hold = new this(name, answer, asked);
    await new Promise((resolve, reject) => hold.#follow(resolve, reject, signal));
    return hold;
  }

  constructor(name, answer, asked) {
    this.name = name;
    /** All names that are held together; just `name`, unless there are several. */
    this.names = [name];
    /** The slot of a permit. */
    this.slot = null;
    /** Increases with every holder: let what the lock protects refuse smaller ones. */
    this.fence = 0;
    this.token = "";
    this.#answer = answer;
    // Before the request was sent. Every deadline is counted from here.
    this.#asked = asked;
    this.#ended = new Promise((resolve) => answer.once("close", resolve));
  }

  /** Aborts, with a LockLost as its reason, as soon as the lock is lost. */
  get signal() {
    return this.#abort.signal;
  }

  get lost() {
    return this.#abort.signal.aborted;
  }

  /** For how many milliseconds it is ours even if the sidecar says no more. */
  remaining() {
    return this.lost ? 0 : until(this.#deadline);
  }

  /** The same as `remaining()`. */
  get remainingMs() {
    return this.remaining();
  }

  /** Throws LockLost if the lock is not ours any more. Call it before every step that must not go wrong. */
  check() {
    if (this.remaining() === 0) this.#lose(OVER);
    if (this.lost) throw this.signal.reason;
  }

  /** The end of a block with `await using lease = await lock("name")`. */
  [Symbol.asyncDispose]() {
    return this.release();
  }

  /** Lets go, and waits until the sidecar has done so, 2 s at most. */
  async release() {
    if (!this.#isReleased) {
      this.#isReleased = true;
      clearTimeout(this.#timer);
      const { socket } = this.#answer;
      // Our half of the connection; the sidecar ends its own when it has let go.
      socket?.end();
      let late;
      const limit = new Promise((resolve) => (late = setTimeout(resolve, LET_GO_MS)));
      await Promise.race([this.#ended, limit]);
      clearTimeout(late);
      this.#answer.destroy();
    }
    await this.#ended;
  }

  #follow(resolve, reject, signal) {
    const answer = this.#answer;
    const onAbort = () => answer.destroy(signal.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    const events = new Events((kind, data) => {
      if (kind === "held" || kind === "leading") {
        this.begun(data);
        this.#keepUntil(endOf(data, this.#asked));
        signal?.removeEventListener("abort", onAbort);
        resolve();
      } else if (kind === "extended") {
        this.#keepUntil(endOf(data, this.#asked));
      } else if (kind === "lost") {
        this.#lose(data.reason ?? "unknown");
      } else if (kind === "shutdown") {
        this.#lose("the sidecar shut down and let go of it");
      }
    });
    answer.socket?.setTimeout(SILENCE_MS, () => answer.destroy(new Error("the sidecar is silent")));
    answer.on("data", (bytes) => {
      try {
        events.push(bytes);
      } catch (error) {
        answer.destroy(error);
      }
    });
    const end = (why) => {
      this.#lose(why);
      const early = new Unreachable(`the stream ended before it held \`${this.name}\``, { code: "unreachable" });
      reject(signal?.aborted ? signal.reason : early);
    };
    answer.on("error", (error) => end(`the connection to the sidecar broke: ${error.message}`));
    answer.on("close", () => end("the sidecar ended the connection"));
  }

  /** What the first event says. */
  begun(data) {
    this.fence = data.fence;
    this.token = data.token;
    this.names = data.names ?? [this.name];
    this.slot = data.slot ?? null;
  }

  #keepUntil(deadline) {
    this.#deadline = deadline;
    clearTimeout(this.#timer);
    if (this.#isReleased) return;
    const over = () => (this.remaining() === 0 ? this.#lose(OVER) : this.#keepUntil(deadline));
    this.#timer = setTimeout(over, Math.min(this.remaining(), LONGEST_TIMER_MS));
    this.#timer.unref();
  }

  #lose(reason) {
    clearTimeout(this.#timer);
    if (this.#isReleased || this.lost) return;
    this.#abort.abort(new LockLost(`lock \`${this.name}\` was lost: ${reason}`, { code: "lost" }));
  }
}

/** A won election, until `release`; everything else is as with a lock. Stop leading when its signal aborts. */
export class Leadership extends Hold {
  /** What was published. */
  value = "";

  /** Above that of every leader before. Send it with every command to followers. */
  get term() {
    return this.fence;
  }

  begun(data) {
    super.begun(data);
    this.value = data.value;
  }
}

/** One of several candidates leads at a time. */
export class Election {
  #calls;

  constructor(name, calls) {
    this.name = name;
    this.#calls = calls;
  }

  /** Waits until we lead, an hour at most if `waitMs` is left out, and publishes `value`, such as our address. */
  async campaign(value, options = {}) {
    return await this.#calls.campaign(value, options);
  }

  /** Who leads now; null if nobody does. */
  async leader() {
    return await this.#calls.leader();
  }

  /**
   * The current leader, and each that follows, by rising terms; from the one after term `after` if that is given.
   * null when nobody leads any more, after a leader that you know. It ends only with an error: Unreachable if the
   * sidecar ends. Then go on after the last term that you saw.
   */
  async *observe({ after, signal } = {}) {
    const answer = await this.#calls.observe(after, signal);
    if (answer.statusCode !== 200) throw problem(answer, await text(answer));
    const leaders = [];
    const events = new Events((kind, data) => {
      if (kind === "leader") leaders.push(data);
      if (kind === "vacant") leaders.push(null);
    });
    answer.socket?.setTimeout(SILENCE_MS, () => answer.destroy(new Error("the sidecar is silent")));
    let cause;
    try {
      for await (const bytes of answer) {
        events.push(bytes);
        yield* leaders.splice(0);
      }
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      cause = error;
    } finally {
      answer.destroy();
    }
    throw new Unreachable("the sidecar ended the stream of leaders", { code: "unreachable", cause });
  }
}

/** Server-sent events out of a stream of bytes. */
class Events {
  #rest = "";
  #decoder = new TextDecoder();
  #kind = "message";
  #data = [];
  #tell;

  constructor(tell) {
    this.#tell = tell;
  }

  push(bytes) {
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split(/\r?\n/);
    this.#rest = lines.pop();
    if (this.#rest.length > LONGEST) throw new Error("the sidecar sent too long a line");
    for (const line of lines) this.#line(line);
  }

  #line(line) {
    if (line === "") {
      if (this.#data.length > 0) this.#tell(this.#kind, JSON.parse(this.#data.join("\n")));
      this.#kind = "message";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    const key = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (key === "event") this.#kind = value;
    else if (key === "data") this.#data.push(value);
  }
}

/**
 * Milliseconds on a clock that goes on while the machine sleeps, at most a tick less than they are.
 *
 * The file is opened once: a process that has no more files to open must not change clocks.
 */
const now = (() => {
  let file;
  try {
    file = fs.openSync("/proc/uptime");
  } catch {
    return () => performance.now();
  }
  const bytes = Buffer.alloc(64);
  return () => Number.parseFloat(bytes.toString("latin1", 0, fs.readSync(file, bytes, 0, bytes.length, 0))) * 1000;
})();

/** Milliseconds to `deadline`, never below 0 and never more than there are. */
function until(deadline) {
  const left = deadline - now() - TICK_MS;
  // What is no number is no time left.
  return left > 0 ? Math.floor(left) : 0;
}

/**
 * When a lock ends on our clock. Never later than it really ends, however late we read what the sidecar said: we sent
 * the request at `asked`, the sidecar got it after that, and `request_age_ms` later it counted `remaining_ms`.
 */
function endOf({ request_age_ms: age, remaining_ms: left, deadline_boot_ms: deadline }, asked) {
  const arrived = deadline - left - age;
  // On our own clock, the request arrived between our sending it and our reading of what was said.
  const isOurClock = asked - TICK_MS <= arrived && arrived <= now() + 2 * TICK_MS - age;
  return asked + age * (isOurClock ? 1 : 1 - DRIFT) + left;
}

function target(url, tls) {
  if (url.startsWith("unix:")) {
    const socketPath = url.slice("unix:".length).replace(/^\/\//, "");
    if (!socketPath.startsWith("/")) throw new TypeError(`\`${url}\` names no socket: unix:/run/quorlock.sock`);
    return { module: http, options: { socketPath, host: "localhost" } };
  }
  const parts = URL.canParse?.(url) === false ? null : new URL(url);
  if (!parts || !["http:", "https:"].includes(parts.protocol) || parts.pathname !== "/") {
    throw new TypeError(`\`${url}\` is no sidecar: http://127.0.0.1:7420 or unix:/run/quorlock.sock`);
  }
  if (parts.username || parts.password || parts.search) {
    throw new TypeError("a token does not belong into the address: new Client({ url, token })");
  }
  const host = parts.hostname.replace(/^\[|\]$/g, "");
  const options = { host, port: parts.port === "" ? 7420 : Number(parts.port) };
  return parts.protocol === "https:" ? { module: https, options: { ...options, ...tls } } : { module: http, options };
}

/** The query of a request; an array comes once for each of its values. */
function queryOf(fields) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(fields)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) query.append(key, String(one));
    }
  }
  return String(query) === "" ? "" : `?${query}`;
}

const mode = (shared) => (shared ? "shared" : undefined);

/** What else than `name` a lease covers. */
function covered(name, names = [], slot = null) {
  const others = names.filter((one) => one !== name);
  return { names: others.length > 0 ? others : undefined, slot: slot ?? undefined };
}

function path(name, place = "locks") {
  if (typeof name !== "string") throw new TypeError("the name of a lock is a string");
  // A name of dots would be taken for a step in the path.
  const quoted = name === "." || name === ".." ? name.replaceAll(".", "%2E") : encodeURIComponent(name);
  return `/v1/${place}/${quoted}`;
}

function text(answer) {
  answer.setEncoding("utf8");
  let said = "";
  return new Promise((resolve, reject) => {
    answer.on("data", (part) => {
      said += part;
      if (said.length > LONGEST) answer.destroy(new QuorlockError("the sidecar answered more than fits"));
    });
    answer.on("end", () => resolve(said));
    answer.on("error", reject);
  });
}

function json(answer, said) {
  try {
    return JSON.parse(said);
  } catch {
    const status = answer.statusCode;
    throw new QuorlockError(`the sidecar answered ${status} without JSON`, { status });
  }
}

function problem(answer, said) {
  const status = answer.statusCode;
  const body = json(answer, said);
  const Kind = BY_CODE[body.code] ?? QuorlockError;
  return new Kind(body.detail ?? body.title ?? `status ${status}`, { status, problem: body });
}

function view(answer) {
  const { remaining_ms: remainingMs = null, node_views: nodeViews = [], ...rest } = answer;
  return { ...rest, remainingMs, nodeViews };
}
