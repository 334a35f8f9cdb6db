/** The package as npm makes it: installed in a project of its own, used by JavaScript and TypeScript. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Hold } from "../quorlock.js";
import { Nodes, Sidecar } from "./kit.js";

const here = path.dirname(fileURLToPath(import.meta.url));
const home = path.dirname(here);
const compiler = path.join(home, "node_modules/typescript/bin/tsc");
const quiet = { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], timeout: 240_000 };

let nodes, sidecar, project;

before(async () => {
  nodes = await Nodes.start();
  sidecar = await Sidecar.start(nodes);
  project = mkdtempSync(path.join(tmpdir(), "quorlock-package-"));
});

after(async () => {
  await sidecar?.stop();
  await nodes?.stop();
  if (project) rmSync(project, { recursive: true, force: true });
});

/** Makes the package and installs it; undefined where npm is missing. */
function install() {
  try {
    execFileSync("npm", ["--version"], quiet);
  } catch {
    return undefined;
  }
  const [packed] = JSON.parse(execFileSync("npm", ["pack", "--json", "--pack-destination", project], { ...quiet, cwd: home }));
  writeFileSync(path.join(project, "package.json"), '{ "name": "user", "private": true, "type": "module" }');
  const words = ["install", "--offline", "--no-audit", "--no-fund", path.join(project, packed.filename)];
  execFileSync("npm", words, { ...quiet, cwd: project });
  return packed.files.map((file) => file.path).sort();
}

function run(...words) {
  return execFileSync(process.execPath, words, { ...quiet, cwd: project, env: { ...process.env, QUORLOCK_SIDECAR: sidecar.unix } });
}

test("a block can end a hold by a symbol, also where Node has none", async () => {
  assert.equal(typeof Hold.prototype[Symbol.asyncDispose], "function");
  // A module in which the symbol is missing.
  const source = readFileSync(path.join(home, "quorlock.js"), "utf8");
  const bare = `const Symbol = Object.assign((name) => globalThis.Symbol(name), { iterator: globalThis.Symbol.iterator });
    export { Symbol };\n`;
  const module = await import(`data:text/javascript;base64,${Buffer.from(bare + source).toString("base64")}`);
  assert.equal(typeof module.Symbol.asyncDispose, "symbol");
  assert.notEqual(module.Symbol.asyncDispose, Symbol.asyncDispose);
  assert.equal(typeof module.Hold.prototype[module.Symbol.asyncDispose], "function");
});

test("the package has what it needs and works in another project", (t) => {
  const files = install();
  if (files === undefined) return t.skip("there is no npm");
  assert.deepEqual(files, ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "package.json", "quorlock.d.ts", "quorlock.js"]);
  const script = `import { withLock } from "quorlock-sidecar";
    console.log(await withLock("packed", async (lease) => lease.fence > 0));`;
  assert.equal(run("--input-type=module", "-e", script).trim(), "true");
  const older = `import("quorlock-sidecar").then(({ withLock }) => withLock("packed", () => "ours")).then(console.log);`;
  assert.equal(run("--input-type=commonjs", "-e", older).trim(), "ours");
});

test("TypeScript accepts what is right, and what it makes of `await using` releases", (t) => {
  if (!existsSync(compiler)) return t.skip("there is no TypeScript: npm ci");
  if (!existsSync(path.join(project, "node_modules/quorlock-sidecar")) && install() === undefined) return t.skip("there is no npm");
  for (const file of ["sample.ts", "tsconfig.json"]) copyFileSync(path.join(here, "types", file), path.join(project, file));
  for (const one of ["@types", "undici-types"]) {
    symlinkSync(path.join(home, "node_modules", one), path.join(project, "node_modules", one));
  }
  const words = [compiler, "-p", project, "--typeRoots", path.join(project, "node_modules/@types")];
  let said = "";
  try {
    said = execFileSync(process.execPath, words, quiet);
  } catch (error) {
    assert.fail(error.stdout);
  }
  assert.equal(said, "");
  // Either slot is free, and which one is tried first is drawn.
  assert.match(run("sample.js").trim(), /^42 read 2 [01] true number function$/);
});
