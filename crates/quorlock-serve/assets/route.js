// Addresses within the page: the list of locks, or one lock as `#/locks/NAME`.

const LOCK = "#/locks/";

/** The address of a lock's own page. */
export const lockHref = (name) => `${LOCK}${encodeURIComponent(name)}`;

/** The lock that an address names: null for the list, undefined if the name is not percent-encoded UTF-8. */
export function lockIn(hash) {
  if (!hash.startsWith(LOCK) || hash === LOCK) return null;
  try { return decodeURIComponent(hash.slice(LOCK.length)); } catch { return undefined; }
}
