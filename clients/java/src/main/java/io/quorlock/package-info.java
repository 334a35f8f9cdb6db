/**
 * Locks from the quorlock sidecar ({@code quorlock serve}), with nothing but the JDK.
 *
 * <pre>{@code
 * Client client = Client.at("http://127.0.0.1:7420"); // or "unix:/run/quorlock.sock"
 *
 * try (Lease lease = client.lock("invoice:42").ttl(Duration.ofSeconds(20)).acquire(Duration.ofSeconds(10))) {
 *     pay(lease.fence()); // let the database refuse an older fence
 *     lease.ensureHeld(); // throws LockLost as soon as the lock is not ours any more
 * }
 * }</pre>
 *
 * <p>The lock is held while a connection to the sidecar is open, and is free as soon as this process is gone.
 *
 * <p><b>Deadlines.</b> A lease ends at its deadline, counted from before the request was sent. So a process that was paused
 * at any point does not rely on a lock that is over. {@link java.lang.System#nanoTime} stands still while a Linux machine
 * sleeps, so this package reads {@code /proc/uptime} there. Elsewhere it puts that clock forward
 * when the calendar has leapt ahead of it.
 */
package io.quorlock;
