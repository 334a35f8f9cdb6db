import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.locks.LockSupport;

/** Measures the locks of a library by the protocol of peers/README.md, with a thread per client. */
final class Contest {
  /** How long a wait that is under way at the end may still take. */
  static final long LAST_WAIT_SECONDS = 10;

  /** One client's lock. */
  interface Lock {
    /** Tries to get the lock, and may wait for LAST_WAIT_SECONDS. */
    boolean acquire() throws Exception;

    void release() throws Exception;
  }

  /** Makes the lock of a name. */
  interface Library {
    Lock lock(String name) throws Exception;
  }

  final Map<String, String> flags = new HashMap<>();
  private final List<Lock> locks = new ArrayList<>();
  private final String version;

  /** The class comes from the library's jar, whose name ends with its version. */
  Contest(String[] args, Class<?> of) {
    for (int i = 0; i + 1 < args.length; i += 2) flags.put(args[i].substring(2), args[i + 1]);
    String jar = of.getProtectionDomain().getCodeSource().getLocation().getPath();
    version = jar.replaceFirst(".*-(\\d[^/]*)\\.jar$", "$1");
  }

  int clients() {
    return Integer.parseInt(flags.get("clients"));
  }

  long ttlMs() {
    return Long.parseLong(flags.getOrDefault("ttl-ms", "10000"));
  }

  /** Warms up, waits for the word to begin, measures, prints the outcome, and ends the program. */
  void run(Library library) throws Exception {
    boolean isOneName = flags.get("workload").equals("one");
    for (int client = 0; client < clients(); client++) {
      locks.add(library.lock(isOneName ? flags.get("prefix") : flags.get("prefix") + ":" + client));
    }
    measure(Double.parseDouble(flags.getOrDefault("warmup", "0")));
    System.out.println("ready");
    new BufferedReader(new InputStreamReader(System.in)).readLine();
    System.out.println(measure(Double.parseDouble(flags.get("seconds"))));
    System.exit(0);
  }

  /** Threads of a library would keep the process alive, and silent. */
  static void fail(Exception error) {
    System.err.println(error);
    System.exit(1);
  }

  private String measure(double seconds) throws InterruptedException {
    if (seconds <= 0) return "";
    Tally tally = new Tally(locks.size());
    long cpu = cpuNanos();
    long end = System.nanoTime() + (long) (seconds * 1e9);
    List<Thread> threads = new ArrayList<>();
    for (int client = 0; client < locks.size(); client++) {
      int number = client;
      threads.add(new Thread(() -> client(number, tally, end)));
    }
    threads.forEach(Thread::start);
    while (System.nanoTime() < end) LockSupport.parkNanos(end - System.nanoTime());
    cpu = cpuNanos() - cpu;
    for (Thread thread : threads) thread.join();
    return tally.outcome(seconds, cpu, version);
  }

  private void client(int number, Tally tally, long end) {
    Lock lock = locks.get(number);
    long hold = TimeUnit.MICROSECONDS.toNanos(Long.parseLong(flags.getOrDefault("hold-us", "0")));
    while (true) {
      long asked = System.nanoTime();
      if (asked >= end) return;
      boolean isHeld = acquire(lock, tally, end + TimeUnit.SECONDS.toNanos(LAST_WAIT_SECONDS));
      tally.note(System.nanoTime() - asked);
      if (!isHeld) return;
      if (hold > 0) LockSupport.parkNanos(hold);
      try {
        lock.release();
      } catch (Exception error) {
        tally.failed.incrementAndGet();
      }
      if (System.nanoTime() < end) tally.counts.incrementAndGet(number);
    }
  }

  private static boolean acquire(Lock lock, Tally tally, long limit) {
    while (true) {
      try {
        if (lock.acquire()) return true;
      } catch (Exception error) {
        // Counted below.
      }
      tally.failed.incrementAndGet();
      if (System.nanoTime() >= limit) return false;
    }
  }

  private static long cpuNanos() {
    var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    return system.getProcessCpuTime();
  }

  /** What the clients did. */
  private static final class Tally {
    final AtomicIntegerArray buckets = new AtomicIntegerArray(1024);
    final AtomicIntegerArray counts;
    final AtomicInteger failed = new AtomicInteger();

    Tally(int clients) {
      counts = new AtomicIntegerArray(clients);
    }

    /** 32 buckets per doubling of microseconds. */
    void note(long nanos) {
      double us = Math.max(nanos / 1000.0, 1);
      buckets.incrementAndGet(Math.min((int) (Math.log(us) / Math.log(2) * 32), 1023));
    }

    String outcome(double seconds, long cpuNanos, String version) {
      long cycles = 0;
      int least = Integer.MAX_VALUE;
      int most = 0;
      for (int i = 0; i < counts.length(); i++) {
        cycles += counts.get(i);
        least = Math.min(least, counts.get(i));
        most = Math.max(most, counts.get(i));
      }
      List<String> acquire = new ArrayList<>();
      for (int i = 0; i < buckets.length(); i++) {
        if (buckets.get(i) > 0) acquire.add("[" + i + "," + buckets.get(i) + "]");
      }
      return String.format(
          "{\"version\":\"%s\",\"seconds\":%s,\"cycles\":%d,\"failed\":%d,\"least\":%d,\"most\":%d,\"cpu_us\":%d,"
              + "\"acquire\":[%s]}",
          version, seconds, cycles, failed.get(), least, most, cpuNanos / 1000, String.join(",", acquire));
    }
  }
}
