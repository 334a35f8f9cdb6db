package io.quorlock;

import io.quorlock.QuorlockException.LockLost;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * A lock that is ours, until it is closed or lost. Safe to share between threads.
 *
 * <p>It is lost as soon as the sidecar says so, ends the connection, or did not extend it in time. It ends a twentieth of its
 * ttl before its deadline, 250 ms at most, so that work can stop in time. Only the fence protects a write that is on its way.
 */
public class Lease implements AutoCloseable {
    /** The sidecar says something every 5 s while a lock is held. Silence for longer means that it is gone. */
    static final long SILENCE = 15_000;
    /** How long the sidecar may take to let go. */
    static final long LET_GO = 2_000;
    /** Timers stand still while the machine sleeps, so the deadline is looked at once a second. */
    private static final long LONGEST_TIMER = 1_000;
    private static final long EARLY_DIVISOR = 20;
    private static final long MOST_EARLY = 250;

    private final Client client;
    private final Handle handle;
    private final String mode;
    /** That of a hold; null for a lease by token. */
    private final Exchange stream;
    private final CountDownLatch ended = new CountDownLatch(1);
    private final CompletableFuture<LockLost> lost = new CompletableFuture<>();
    private final Object releasing = new Object();
    private Outcome outcome;

    private long fence;
    private long ttl;
    private long end;
    private long quiet;
    private Future<?> timer;
    private String lostReason;
    private boolean isReleased;

    Lease(Client client, String name, Said said, long asked, Exchange stream) {
        List<String> names = said.texts("names");
        this.client = client;
        this.handle = new Handle(name, said.text("token"), names.isEmpty() ? List.of(name) : names, said.smallOrNull("slot"));
        this.mode = said.text("mode");
        this.stream = stream;
        keep(said, asked, said.number("ttl_ms"));
    }

    /** The name of the lock, the first one of several. */
    public String name() {
        return handle.name();
    }

    /** All names that are held together; just one, unless there are several. */
    public List<String> names() {
        return handle.names();
    }

    /** That of a permit, from 0; -1 for a lock. The fence belongs to the slot. */
    public int slot() {
        return handle.slot() == null ? -1 : handle.slot();
    }

    /** "exclusive" or "shared", or null if the sidecar did not tell. */
    public String mode() {
        return mode;
    }

    /**
     * Increases with every holder: send it with every write, and let what the lock protects refuse smaller ones. 0 if the
     * lease was extended by a sidecar that did not hand it out, and too few nodes told it.
     */
    public synchronized long fence() {
        return fence;
    }

    /** What another process needs to extend or release the lease. It contains the token. */
    public Handle handle() {
        return handle;
    }

    /** For how long the lock is ours even if the sidecar says no more. Counted from before the request. */
    public Duration remaining() {
        look();
        synchronized (this) {
            boolean isOurs = lostReason == null && !isReleased;
            return Duration.ofMillis(isOurs ? Math.max(0, left()) : 0);
        }
    }

    /** False if the lock is lost or released. */
    public boolean isHeld() {
        look();
        synchronized (this) {
            return lostReason == null && !isReleased;
        }
    }

    /** Throws {@link LockLost} if the lock is not ours any more. Call it before every step that must not go wrong. */
    public void ensureHeld() {
        look();
        synchronized (this) {
            if (isReleased) throw new IllegalStateException("the lease of lock `" + name() + "` was released");
            if (lostReason != null) throw lockLost();
        }
    }

    /** Completes, with the reason, as soon as the lock is lost; never if it is released before. */
    public CompletableFuture<LockLost> lost() {
        look();
        return lost.copy();
    }

    /** Calls {@code listener} once, in another thread, as soon as the lock is lost. */
    public void onLost(Consumer<LockLost> listener) {
        lost().thenAcceptAsync(listener);
    }

    /**
     * Keeps the lock for one ttl from now, as long as the last time. Throws {@link LockLost} if it is lost; after any other
     * exception the lease goes on until its deadline. A hold needs no extend, as the sidecar keeps it: this then is the same
     * as {@link #ensureHeld}.
     */
    public void extend() {
        extend(null);
    }

    /** The same with another ttl. */
    public void extend(Duration ttl) {
        ensureHeld();
        if (stream != null) return;
        Client.Granted granted;
        try {
            granted = client.extendSaid(handle, ttl);
        } catch (LockLost gone) {
            lose(gone.getMessage());
            throw gone;
        }
        keep(granted.said(), granted.asked(), granted.said().number("ttl_ms"));
        ensureHeld();
    }

    /**
     * Lets go, and waits until the sidecar has done so. Throws {@link LockLost} if the lock was lost. Called again it gives the
     * same outcome.
     */
    public Outcome release() {
        look();
        synchronized (this) {
            if (lostReason != null) throw lockLost();
            isReleased = true;
            if (timer != null) timer.cancel(false);
        }
        synchronized (releasing) {
            if (outcome != null) return outcome;
            outcome = Outcome.UNCONFIRMED;
            // A thread that was interrupted releases as well.
            boolean isInterrupted = Thread.interrupted();
            try {
                outcome = stream == null ? client.release(handle) : letGo();
            } finally {
                if (isInterrupted) Thread.currentThread().interrupt();
            }
            return outcome;
        }
    }

    /** Releases. Throws {@link LockLost} if the lock was lost meanwhile. */
    @Override
    public void close() {
        release();
    }

    /** Names the lock and its fence, and not the token. */
    @Override
    public String toString() {
        return "Lease[name=" + name() + ", fence=" + fence() + "]";
    }

    /** Releases by token, as only that tells the outcome, and ends the connection. */
    private Outcome letGo() {
        try {
            return client.release(handle, "release", LET_GO);
        } catch (LockLost gone) {
            throw gone;
        } catch (QuorlockException error) {
            // The sidecar lets go before it ends its half of the connection.
            stream.hangUp();
            awaitEnd();
            return Outcome.UNCONFIRMED;
        } finally {
            stream.close();
        }
    }

    private void awaitEnd() {
        try {
            ended.await(LET_GO, TimeUnit.MILLISECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** Reads the stream of a hold in a thread of its own, until the lock is lost or let go. */
    void follow(Events events) {
        Thread reader = new Thread(() -> read(events), "quorlock " + name());
        reader.setDaemon(true);
        reader.start();
    }

    private void read(Events events) {
        String reason = "the sidecar ended the connection";
        try {
            for (Events.Event event = events.next(); event != null; event = events.next()) {
                if (event.kind().equals("extended")) {
                    keep(event.said(), stream.asked, ttl());
                } else if (event.kind().equals("lost")) {
                    reason = String.valueOf(event.said().text("reason"));
                    break;
                } else if (event.kind().equals("shutdown")) {
                    reason = "the sidecar shut down and let go of it";
                    break;
                }
            }
        } catch (IOException error) {
            reason = "the connection to the sidecar broke: " + error;
        }
        ended.countDown();
        lose(reason);
        stream.close();
    }

    synchronized void heard() {
        quiet = 0;
    }

    private synchronized long ttl() {
        return ttl;
    }

    /** Moves the end to what the sidecar said. */
    private synchronized void keep(Said said, long asked, long newTtl) {
        ttl = newTtl;
        if (said.number("fence") != 0) fence = said.number("fence");
        end = BootClock.deadline(said, asked, client.now()) - Math.min(ttl / EARLY_DIVISOR, MOST_EARLY);
        lookLater();
    }

    private long left() {
        return end - client.now() - BootClock.TICK;
    }

    private void lookLater() {
        if (timer != null) timer.cancel(false);
        if (lostReason != null || isReleased) return;
        timer = Watch.later(this::watch, Math.max(0, Math.min(left(), LONGEST_TIMER)));
    }

    private void watch() {
        look();
        boolean isSilent;
        synchronized (this) {
            // Counted in looks: a pause of this process is no silence of the sidecar.
            quiet += LONGEST_TIMER;
            isSilent = stream != null && quiet > SILENCE + LONGEST_TIMER;
            if (!isSilent) lookLater();
        }
        if (isSilent) lose("the sidecar is silent");
    }

    /** Finds out whether the time is over. */
    private void look() {
        boolean isOver;
        synchronized (this) {
            isOver = left() <= 0;
        }
        if (isOver) lose("its time ran out and it was not extended");
    }

    private void lose(String reason) {
        synchronized (this) {
            if (lostReason != null || isReleased) return;
            lostReason = reason;
            if (timer != null) timer.cancel(false);
        }
        // What waits for it may take its time, and must not hold up other leases.
        LockLost why = lockLost();
        ForkJoinPool.commonPool().execute(() -> lost.complete(why));
        if (stream != null) stream.close();
    }

    /** A new one each time: an exception cannot be suppressed by itself. */
    private synchronized LockLost lockLost() {
        return new LockLost("lock `" + name() + "` was lost: " + lostReason, 0, null);
    }
}
