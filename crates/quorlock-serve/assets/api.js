// Talking to the sidecar: requests, the token, and streams of events.

const KEY = "quorlock-token";
let token = null;
try { token = sessionStorage.getItem(KEY); } catch { /* storage is forbidden: the token lives as long as the page */ }

export const hasToken = () => token !== null;

/** Keeps the token for this tab only; null forgets it. */
export function setToken(secret) {
  token = secret;
  try {
    if (secret === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, secret);
  } catch { /* see above */ }
}

/** The sidecar answered, but not with what was asked for. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `the sidecar answered ${status}`);
    this.status = status;
    this.code = body.code || "";
    this.body = body;
  }
}

function headers(more = {}) {
  return token === null ? more : { ...more, authorization: `Bearer ${token}` };
}

async function problem(answer) {
  let body = {};
  try { body = await answer.json(); } catch { /* not ours: a proxy in between */ }
  return new Problem(answer.status, body && typeof body === "object" ? body : {});
}

/**
 * One request, answered with JSON. Paths are relative, so the page also works below a prefix of a proxy.
 * `signal` gives the request up.
 * @throws {Problem} if the sidecar refused; anything else means that it was not reached.
 */
export async function ask(path, { body, timeout = 4000, signal } = {}) {
  const late = AbortSignal.timeout(timeout);
  const answer = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers: headers(body === undefined ? {} : { "content-type": "application/json" }),
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
    signal: signal ? AbortSignal.any([signal, late]) : late,
  });
  if (!answer.ok) throw await problem(answer);
  return answer.json();
}

// The sidecar says something at least every 5 s.
const SILENCE_MS = 15_000;

/** Reads server-sent events with fetch, because EventSource cannot send a token. Returns when the stream ends. */
export async function follow(path, onOpen, onEvent, signal) {
  const silence = new AbortController();
  let timer = null;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENCE_MS);
  };
  heard();
  try {
    const answer = await fetch(path, {
      headers: headers({ accept: "text/event-stream" }), cache: "no-store", signal: AbortSignal.any([signal, silence.signal]),
    });
    if (!answer.ok) throw await problem(answer);
    onOpen();
    await readBlocks(answer.body, heard, (block) => {
      const event = parse(block);
      if (event) onEvent(event);
    });
  } finally {
    clearTimeout(timer);
  }
}

async function readBlocks(body, heard, onBlock) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    // A block this long is not ours.
    if (rest.length > 1_000_000) throw new Error("the event stream makes no sense");
    blocks.forEach(onBlock);
  }
}

function parse(block) {
  const event = { id: null, kind: "message", data: "" };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    const field = line.slice(0, colon);
    if (field === "id") event.id = Number(value);
    else if (field === "event") event.kind = value;
    else if (field === "data") event.data += event.data ? `\n${value}` : value;
  }
  if (!event.data && event.kind === "message") return null;
  try { event.data = JSON.parse(event.data); } catch { event.data = {}; }
  return event;
}
