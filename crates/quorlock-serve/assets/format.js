// Numbers and times as people read them.

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

/** A duration with two units at most: "8.4 s", "42 s", "3 min 5 s", "2 h 14 min", "3 d 4 h". */
export function span(ms) {
  const t = Math.max(0, ms);
  if (t < 10 * SECOND) return `${(Math.floor(t / 100) / 10).toFixed(1)} s`;
  if (t < MINUTE) return `${Math.floor(t / SECOND)} s`;
  if (t < HOUR) return two(t, MINUTE, "min", SECOND, "s");
  if (t < DAY) return two(t, HOUR, "h", MINUTE, "min");
  return two(t, DAY, "d", HOUR, "h");
}

/** As `span`, in whole seconds: for what is not counted down. */
export function age(ms) {
  return ms < 10 * SECOND ? `${Math.max(0, Math.floor(ms / SECOND))} s` : span(ms);
}

function two(t, big, bigUnit, small, smallUnit) {
  const rest = Math.floor((t % big) / small);
  return `${Math.floor(t / big)} ${bigUnit}${rest ? ` ${rest} ${smallUnit}` : ""}`;
}

/** Milliseconds with three digits that matter: "0.31 ms", "4.2 ms", "184 ms". */
export function millis(ms) {
  if (ms === null || ms === undefined) return "–";
  const size = Math.abs(ms);
  return `${size < 1 ? size.toFixed(2) : size < 10 ? size.toFixed(1) : String(Math.round(size))} ms`;
}

/** A difference of clocks, with its sign. */
export function offset(ms) {
  if (ms === null || ms === undefined) return "–";
  if (Math.abs(ms) < 0.05) return "±0 ms";
  return `${ms > 0 ? "+" : "−"}${millis(ms)}`;
}

/** The moment for machines; null if there is no such moment, as holders can tell anything. */
export function iso(at) {
  const date = new Date(at ?? NaN);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}

/** The exact moment, in the reader's time zone and in UTC. */
export function exact(at) {
  return iso(at) === null ? "unknown" : `${new Date(at).toLocaleString()} (${iso(at)})`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

/** Time of day. */
export function clock(at) {
  return iso(at) === null ? "–" : CLOCK.format(new Date(at));
}

/** A whole number: "12,480". */
export const whole = (n) => Number(n).toLocaleString("en");

/** "1 node", "3 nodes". */
export function count(n, one, many = `${one}s`) {
  return `${n} ${n === 1 ? one : many}`;
}
