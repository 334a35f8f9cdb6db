package io.quorlock;

import io.quorlock.QuorlockException.Contended;
import io.quorlock.QuorlockException.Held;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** A lock that we want, with its settings. It never changes: each setting gives a new request. */
public final class LockRequest {
    private static final Duration DEFAULT_WAIT = Duration.ofSeconds(10);

    private final Client client;
    private final String name;
    private final Map<String, Object> wanted;

    LockRequest(Client client, String name, Map<String, Object> wanted) {
        this.client = client;
        this.name = name;
        this.wanted = wanted;
    }

    /** How long the lock lasts without being extended. */
    public LockRequest ttl(Duration ttl) {
        return with("ttl_ms", millis(ttl));
    }

    /** Who we are, for people who ask who holds the lock. */
    public LockRequest owner(String owner) {
        return with("owner", owner);
    }

    /** Why, for people who ask who holds the lock. */
    public LockRequest reason(String reason) {
        return with("reason", reason);
    }

    /** Together with others that share it. */
    public LockRequest shared() {
        return with("mode", "shared");
    }

    /**
     * Waits for the lock, at most that long, and holds it until it is closed. The sidecar keeps it alive while this process
     * lives. Throws {@link Held} or one of its kinds, {@link QuorlockException.NoQuorum}, {@link QuorlockException.Unreachable}
     * and others. The interrupt of this thread ends the waiting and leaves no lock behind.
     */
    public Lease acquire(Duration wait) throws InterruptedException {
        return client.open(name, "locks", "hold", with("wait_ms", millis(wait)).wanted, wait, Lease::new);
    }

    /** Waits 10 s at most. */
    public Lease acquire() throws InterruptedException {
        return acquire(DEFAULT_WAIT);
    }

    /** The lock now, or nothing if others have it. */
    public Optional<Lease> tryAcquire() throws InterruptedException {
        try {
            return Optional.of(acquire(Duration.ZERO));
        } catch (Held | Contended error) {
            return Optional.empty();
        }
    }

    /**
     * Takes the lock for one ttl, by token. Extend it in time, and release it: it does not end with this process or with a
     * connection.
     */
    public Lease acquireByToken(Duration wait) throws InterruptedException {
        return client.acquire(name, with("wait_ms", millis(wait)).wanted, wait);
    }

    /**
     * Runs {@code work} while it holds the lock. Throws {@link QuorlockException.LockLost} if the lock was lost meanwhile, unless
     * the work throws something else.
     */
    public <T, E extends Exception> T run(Duration wait, Work<T, E> work) throws E, InterruptedException {
        try (Lease lease = acquire(wait)) {
            return work.run(lease);
        }
    }

    /** What {@link #run} does under the lock. */
    @FunctionalInterface
    public interface Work<T, E extends Exception> {
        T run(Lease lease) throws E;
    }

    private LockRequest with(String key, Object value) {
        Map<String, Object> more = new LinkedHashMap<>(wanted);
        more.put(key, value);
        return new LockRequest(client, name, more);
    }

    static LockRequest of(Client client, String owner, String name, List<String> others, Integer slots) {
        Map<String, Object> wanted = new LinkedHashMap<>();
        wanted.put("owner", owner);
        wanted.put("names", others.isEmpty() ? null : others);
        wanted.put("slots", slots);
        return new LockRequest(client, name, wanted);
    }

    /** Rounded up: who asks for a little must not get nothing. */
    static long millis(Duration duration) {
        return duration.plusNanos(999_999).toMillis();
    }
}
