/** Five real Redis servers and real sidecars for the tests. QUORLOCK_PROGRAM names the built program. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
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
  static async start(nodes) {
    const dir = mkdtempSync(path.join(tmpdir(), "quorlock-client-"));
    const config = path.join(dir, "quorlock.toml");
    writeFileSync(config, 'node_timeout = "150ms"\n'); // Patience with a loaded machine.
    const unix = `unix:${dir}/s.sock`;
    const words = ["serve", "--quiet", "--listen", "127.0.0.1:0", "--listen", unix];
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
