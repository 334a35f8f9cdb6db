/** Acquires and releases one lock in turns, with the sidecar client or with `node:http` alone; see `run`. */

import http from "node:http";
import { createInterface } from "node:readline";
import { Client } from "../javascript/quorlock.js";

function clientCycle(url) {
  const client = new Client({ url });
  return async () => {
    const lease = await client.acquire("bench-client", { ttlMs: 10_000 });
    await client.release("bench-client", lease.token);
  };
}

function plainCycle(url) {
  const { hostname: host, port } = new URL(url);
  const agent = new http.Agent({ keepAlive: true });
  const post = (verb, body) =>
    new Promise((resolve, reject) => {
      const data = JSON.stringify(body);
      const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(data) };
      const where = { host, port, agent, method: "POST", path: `/v1/locks/bench-plain/${verb}`, headers };
      const request = http.request(where, (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (part) => (text += part));
        response.on("end", () => (response.statusCode === 200 ? resolve(JSON.parse(text)) : reject(new Error(text))));
      });
      request.on("error", reject);
      request.end(data);
    });
  return async () => {
    const lease = await post("acquire", { ttl_ms: 10_000, wait_ms: 0 });
    await post("release", { token: lease.token });
  };
}

const [kind, url] = process.argv.slice(2);
const cycle = { client: clientCycle, plain: plainCycle }[kind](url);
for await (const line of createInterface({ input: process.stdin })) {
  const start = performance.now();
  const end = start + Number(line) * 1000;
  let count = 0;
  for (; performance.now() < end; count++) await cycle();
  console.log((count * 1000) / (performance.now() - start));
}
process.exit(0);
