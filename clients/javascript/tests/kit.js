/** Five real Redis servers and real sidecars for the tests. QUORLOCK_PROGRAM names the built program. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import net from "node:net";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");
const program = process.env.QUORLOCK_PROGRAM ?? path.join(root, "target/debug/quorlock");

function environment(more) {
  const clean = Object.entries(process.env).filter(([key]) => !key.startsWith("QUORLOCK_"));
  return { ...Object.fromEntries(clean), ...more };
}

function start(words, more = {}) {
  const child = spawn(program, words, { stdio: ["ignore", "pipe", "ignore"], env: environment(more) });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return { child, line: async () => (await lines.next()).value };
}

async function end(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill(signal);
  await once(child, "exit");
}

/** Five servers. */
export class Nodes {
  static async start() {
    const nodes = new Nodes();
    const { child, line } = start(["dev", "--json"]);
    const told = JSON.parse(await line());
    return Object.assign(nodes, { child, urls: told.environment.QUORLOCK_NODES, pids: told.nodes.map((one) => one.pid) });
  }

  /** Kills the next ones. */
  kill(count) {
    for (const pid of this.pids.splice(0, count)) process.kill(pid, "SIGKILL");
  }

  stop() {
    return end(this.child, "SIGTERM");
  }
}

/** A sidecar on a free port and a unix socket. */
export class Sidecar {
  static async start(nodes, ...more) {
    const dir = mkdtempSync(path.join(tmpdir(), "quorlock-client-"));
    const config = path.join(dir, "quorlock.toml");
    writeFileSync(config, 'node_timeout = "150ms"\n'); // For a loaded machine.
    const unix = `unix:${dir}/s.sock`;
    const words = ["serve", "--quiet", "--listen", "127.0.0.1:0", "--listen", unix, ...more];
    const { child, line } = start(words, { QUORLOCK_NODES: nodes.urls, QUORLOCK_CONFIG: config });
    const url = (await line()).split(" ").pop();
    await line();
    return Object.assign(new Sidecar(), { child, dir, url, unix });
  }

  async stop(signal = "SIGKILL") {
    await end(this.child, signal);
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Passes bytes on to a sidecar or a server, and keeps what it answered. */
export class Recorder {
  answered = "";
  /** How many connections came. */
  connections = 0;
  /** Whether a connection that has answered once ends at its second request, which is not passed on. */
  endsAtSecond = false;
  #open = [];
  #isStopped = false;

  /** `change`: what callers get instead of an answer. */
  static async start(url, change = (bytes) => bytes) {
    const recorder = new Recorder();
    const { hostname, port } = new URL(url);
    recorder.server = net.createServer({ allowHalfOpen: true }, (caller) => {
      const sidecar = net.connect({ host: hostname, port, allowHalfOpen: true });
      let hasAnswered = false;
      recorder.connections++;
      caller.on("data", () => {
        if (hasAnswered && recorder.endsAtSecond) recorder.cut();
      });
      sidecar.on("data", (bytes) => {
        hasAnswered = true;
        recorder.answered += bytes;
        caller.write(change(bytes));
      });
      sidecar.on("end", () => caller.end());
      recorder.#open.push(caller, sidecar);
      if (recorder.#isStopped) recorder.stop();
      for (const one of [caller, sidecar]) one.on("error", () => {});
      caller.pipe(sidecar);
    });
    recorder.server.listen(0, "127.0.0.1");
    await once(recorder.server, "listening");
    recorder.url = `http://127.0.0.1:${recorder.server.address().port}`;
    return recorder;
  }

  /** Ends all connections. New ones are accepted. */
  cut() {
    for (const one of this.#open) one.destroy();
  }

  stop() {
    this.#isStopped = true;
    this.server.close();
    this.cut();
  }
}

/** An answer as a sidecar on another machine gives it, which was started at another time. */
export function otherBootClock(bytes) {
  const shift = (_, field, digit) => field + (digit === "9" ? "1" : "9");
  return bytes.toString("latin1").replace(/("deadline_boot_ms":)(\d)/g, shift);
}

/** The way from one sidecar to some nodes, which can be cut for most of them. */
export class Wires {
  static async start(nodes, count) {
    const urls = nodes.urls.split(",");
    const recorders = await Promise.all(urls.slice(0, count).map((url) => Recorder.start(url)));
    const through = recorders.map(({ url }) => url.replace("http:", "redis:"));
    return Object.assign(new Wires(), { recorders, urls: [...through, ...urls.slice(count)].join(",") });
  }

  cut() {
    for (const recorder of this.recorders) recorder.stop();
  }
}

/** A program that uses the client, in a process of its own that can be paused. */
export class Caller {
  constructor(script, url) {
    const client = path.join(root, "clients/javascript/quorlock.js");
    const head = `import { Client } from ${JSON.stringify(client)}; const client = new Client({ url: ${JSON.stringify(url)} });`;
    const words = ["--input-type=module", "-e", head + script];
    this.child = spawn(process.execPath, words, { stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
    this.line = async () => (await lines.next()).value;
  }

  /** Resolves when it stands still. */
  async pause() {
    this.child.kill("SIGSTOP");
    const isStopped = () => readFileSync(`/proc/${this.child.pid}/stat`, "utf8").split(") ")[1].startsWith("T");
    while (!isStopped()) await new Promise((resolve) => setTimeout(resolve, 5));
  }

  resume() {
    this.child.kill("SIGCONT");
  }

  stop() {
    return end(this.child, "SIGKILL");
  }
}
