package io.quorlock;

import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** One thread that looks at deadlines. What it runs never blocks. */
final class Watch {
    private static final ScheduledThreadPoolExecutor THREAD = thread();

    private Watch() {}

    private static ScheduledThreadPoolExecutor thread() {
        ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1, work -> {
            Thread thread = new Thread(work, "quorlock watch");
            thread.setDaemon(true);
            return thread;
        });
        executor.setRemoveOnCancelPolicy(true);
        return executor;
    }

    static Future<?> later(Runnable work, long millis) {
        return THREAD.schedule(work, millis, TimeUnit.MILLISECONDS);
    }
}
