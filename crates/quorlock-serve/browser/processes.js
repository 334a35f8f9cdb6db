// Real servers and a real sidecar, none of which outlives the tests.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

const QUORLOCK = process.env.QUORLOCK;
if (!QUORLOCK) throw new Error("set QUORLOCK to the program: cargo build -p quorlock-cli, then QUORLOCK=$PWD/target/debug/quorlock");

/** Long enough for a busy machine. */
export const TIMEOUT_MS = 20_000;

/** The kernel kills it when this process ends in any way. */
function spawnBound(program, args, options = {}) {
  return spawn("setpriv", ["--pdeathsig", "KILL", "--", program, ...args], { stdio: ["ignore", "pipe", "inherit"], ...options });
}

async function end(child, signal = "SIGKILL") {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill(signal);
  await ended;
}

/** Waits until `check` gives something true. */
export async function until(what, check, timeout = TIMEOUT_MS) {
  const give = Date.now() + timeout;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > give) throw new Error(`waited ${timeout} ms in vain: ${what}`);
    await sleep(30);
  }
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** What the server at `port` answers to a line; null if there is none. */
const say = (port, line) => new Promise((tell) => {
  const socket = connect(port, "127.0.0.1", () => socket.write(`${line}\r\n`));
  socket.on("data", (answer) => { tell(answer.toString()); socket.destroy(); });
  socket.on("error", () => tell(null));
});

/** One Redis server that forgets everything when it restarts. */
class Node {
  constructor(port, directory) {
    Object.assign(this, { port, directory, url: `redis://127.0.0.1:${port}`, child: null });
  }

  async start() {
    this.child = spawnBound("redis-server", ["--port", String(this.port), "--bind", "127.0.0.1", "--save", "", "--dir", this.directory, "--loglevel", "warning"],
      { stdio: "ignore" });
    await until(`redis-server answers at ${this.port}`, () => say(this.port, "PING"));
  }

  kill() {
    return end(this.child);
  }

  /** Sends a command past quorlock. */
  command(line) {
    return say(this.port, line);
  }
}

/** Nodes and a sidecar in front of them. */
export class World {
  /** `ttl`, in seconds, is also the longest: a restarted node waits for it and 10 s more. */
  static async start(t, { nodes = 5, args = [], ttl = 30 } = {}) {
    const world = new World();
    world.ttl = ttl;
    world.held = [];
    world.directory = mkdtempSync(join(tmpdir(), "quorlock-browser-"));
    t.after(() => world.end());
    world.nodes = await Promise.all(Array.from({ length: nodes }, async () => new Node(await freePort(), world.directory)));
    await Promise.all(world.nodes.map((node) => node.start()));
    await world.run("init", "--yes");
    await world.serve(args);
    return world;
  }

  /** Written once: a program that starts meanwhile must not read half of it. */
  options() {
    // A patient node timeout: browsers keep a small machine busy.
    const nodes = JSON.stringify(this.nodes.map((node) => node.url));
    this.config ??= this.file("quorlock.toml", `nodes = ${nodes}\nttl = "${this.ttl}s"\nlongest_ttl = "${this.ttl}s"\nnode_timeout = "500ms"\n`);
    return ["--config", this.config];
  }

  /** Starts `quorlock serve`; again at the same address. */
  async serve(args = this.args) {
    this.args = args;
    const at = this.url ? new URL(this.url).host : "127.0.0.1:0";
    this.sidecar = spawnBound(QUORLOCK, ["serve", ...this.options(), "--listen", at, ...args], { env: this.environment() });
    const lines = createInterface({ input: this.sidecar.stdout });
    const ended = once(this.sidecar, "exit").then(([code]) => { throw new Error(`quorlock serve ended with ${code}`); });
    // It may well end later, when nobody waits for its first line any more.
    ended.catch(() => {});
    const [line] = await Promise.race([once(lines, "line"), ended]);
    this.url = `${line.replace(/^listening on /, "")}/`;
  }

  stopSidecar() {
    return end(this.sidecar, "SIGTERM");
  }

  /** One command of quorlock, to its end. */
  async run(...args) {
    const { stdout } = await promisify(execFile)(QUORLOCK, [args[0], ...this.options(), ...args.slice(1)], { env: this.environment() });
    return stdout;
  }

  /** `quorlock run NAME -- sleep`: another process that holds a lock until it is ended. */
  hold(name, ...args) {
    const child = spawnBound(QUORLOCK, ["run", ...this.options(), "--ttl", "4s", ...args, name, "--", "sleep", "600"], { stdio: "ignore", env: this.environment() });
    return { end: () => end(child, "SIGTERM"), child };
  }

  async ask(path, body, headers = {}) {
    const answer = await fetch(new URL(path, this.url), body === undefined ? { headers }
      : { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) });
    return { status: answer.status, body: await answer.json() };
  }

  acquire(name, body = {}, headers = {}) {
    return this.ask(`v1/locks/${encodeURIComponent(name)}/acquire`, body, headers);
  }

  /** Holds a lock through the sidecar until the test ends. */
  async keep(t, name, terms = {}) {
    const leave = new AbortController();
    t.after(() => leave.abort());
    const url = new URL(`v1/locks/${encodeURIComponent(name)}/hold?${new URLSearchParams(terms)}`, this.url);
    const answer = await fetch(url, { signal: leave.signal });
    if (answer.status !== 200) throw new Error(await answer.text());
    // An answer that nobody refers to is collected, and its connection closed with it: the lock would be free.
    this.held.push(answer);
    return answer;
  }

  /** A file with text for the sidecar. */
  file(name, text) {
    const path = join(this.directory, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  }

  environment() {
    // Nothing of the user's own configuration.
    return { PATH: process.env.PATH, HOME: this.directory, XDG_CONFIG_HOME: this.directory };
  }

  async end() {
    await end(this.sidecar);
    await Promise.all((this.nodes ?? []).map((node) => node.kill()));
    rmSync(this.directory, { recursive: true, force: true });
  }
}
