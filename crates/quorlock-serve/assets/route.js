// Addresses within the page: the list of locks, or one lock as `#/locks/NAME`.

const LOCK = "#/locks/";

/** The address of a lock's own page. */
export const lockHref = (name) => `${LOCK}${encodeURIComponent(name)}`;

const SLOT = "quorlock:slot:";

/** The name for people: a slot of a semaphore is `gpu #2`. */
export function titleOf(name) {
  const [semaphore, slot] = slotIn(name);
  return semaphore === null ? name : `${semaphore} #${slot}`;
}

/** The name that events have: that of its semaphore for a slot. */
export const topicOf = (name) => slotIn(name)[0] ?? name;

function slotIn(name) {
  const end = name.lastIndexOf(":");
  return name.startsWith(SLOT) && end > SLOT.length ? [name.slice(SLOT.length, end), name.slice(end + 1)] : [null, null];
}

/** The lock that an address names: null for the list, undefined if the name is not percent-encoded UTF-8. */
export function lockIn(hash) {
  if (!hash.startsWith(LOCK) || hash === LOCK) return null;
  try { return decodeURIComponent(hash.slice(LOCK.length)); } catch { return undefined; }
}
