package io.quorlock;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.function.LongSupplier;

/** A clock in milliseconds that goes on while the machine sleeps. */
final class BootClock {
    /** The time is this much later at most than what the clock says: /proc/uptime has hundredths of a second. */
    static final long TICK = 10;
    /**
     * The clocks of two machines may run apart by this part of the time that they measure. A sidecar belongs on the machine
     * of its callers; on another a hold ends for us after about a thousand ttls.
     */
    private static final long DRIFT_DIVISOR = 1000;
    /** No time that a sidecar names is longer: 366 days. */
    private static final long LONGEST = 366L * 24 * 3600 * 1000;

    static final LongSupplier SYSTEM = system();

    private BootClock() {}

    /**
     * When a lock ends on our clock. Never later than it really ends, however late we read what the sidecar said: we sent
     * the request at {@code asked}, the sidecar got it after that, and counted the rest when it was so old.
     */
    static long deadline(Said said, long asked, long now) {
        long age = bounded(said.number("request_age_ms")), left = bounded(said.number("remaining_ms"));
        long arrived = said.number("deadline_boot_ms") - left - age;
        // On our own clock, the request arrived between our sending it and our reading of what was said.
        boolean isOurs = asked - TICK <= arrived && arrived <= now + 2 * TICK - age;
        return asked + age - (isOurs ? 0 : (age + DRIFT_DIVISOR - 1) / DRIFT_DIVISOR) + left;
    }

    private static long bounded(long millis) {
        return Math.min(Math.max(millis, 0), LONGEST);
    }

    /** The file is opened once: a process that has no more files to open must not change clocks. */
    private static LongSupplier system() {
        try {
            // No FileChannel: the interrupt of a thread would close it.
            RandomAccessFile file = new RandomAccessFile("/proc/uptime", "r");
            LongSupplier clock = () -> uptime(file);
            clock.getAsLong();
            return clock;
        } catch (IOException | UncheckedIOException | IllegalArgumentException error) {
            return new Longer()::read;
        }
    }

    private static long uptime(RandomAccessFile file) {
        byte[] bytes = new byte[64];
        int read;
        synchronized (file) {
            try {
                file.seek(0);
                read = file.read(bytes);
            } catch (IOException error) {
                throw new UncheckedIOException("/proc/uptime cannot be read any more", error);
            }
        }
        String[] parts = new String(bytes, 0, Math.max(read, 0), StandardCharsets.US_ASCII).split("[. ]");
        return Long.parseLong(parts[0]) * 1000 + Long.parseLong(parts[1]) * 10;
    }

    /**
     * A clock that may stand still while the machine sleeps, put forward whenever the calendar has leapt ahead of it. It
     * never goes back.
     */
    static final class Longer {
        /** The calendar has leapt if it gained so much between two readings; less is the grain of both clocks. */
        private static final long LEAP = 50;

        private final long start;
        private long lastAhead;
        private long slept;

        Longer() {
            this(System.nanoTime(), System.currentTimeMillis());
        }

        Longer(long nanos, long millis) {
            start = nanos;
            lastAhead = millis - nanos / 1_000_000;
        }

        long read() {
            return read(System.nanoTime(), System.currentTimeMillis());
        }

        synchronized long read(long nanos, long millis) {
            long ahead = millis - nanos / 1_000_000;
            if (ahead - lastAhead > LEAP) slept += ahead - lastAhead;
            lastAhead = ahead;
            return (nanos - start) / 1_000_000 + slept;
        }
    }
}
