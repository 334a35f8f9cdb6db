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
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Puts Curator's InterProcessMutex behind the protocol of peers/README.md: a thread per client, one connection. */
public final class CuratorContestant {
  /** How long a wait that is under way at the end may still take. */
  private static final long PATIENCE_SECONDS = 10;

  private final Map<String, String> flags = new HashMap<>();
  private final List<InterProcessMutex> locks = new ArrayList<>();

  private CuratorContestant(String[] args) {
    for (int i = 0; i + 1 < args.length; i += 2) flags.put(args[i].substring(2), args[i + 1]);
    String host = flags.get("nodes").replaceFirst("^zk://", "");
    int sessionMs = Integer.parseInt(flags.getOrDefault("ttl-ms", "10000"));
    CuratorFramework framework =
        CuratorFrameworkFactory.newClient(host, sessionMs, 5000, new ExponentialBackoffRetry(100, 3));
    framework.start();
    String path = "/locks/" + flags.get("prefix");
    boolean isOneName = flags.get("workload").equals("one");
    int clients = Integer.parseInt(flags.get("clients"));
    for (int client = 0; client < clients; client++) {
      locks.add(new InterProcessMutex(framework, isOneName ? path : path + ":" + client));
    }
  }

  public static void main(String[] args) {
    try {
      CuratorContestant contestant = new CuratorContestant(args);
      contestant.measure(Double.parseDouble(contestant.flags.getOrDefault("warmup", "0")));
      System.out.println("ready");
      new BufferedReader(new InputStreamReader(System.in)).readLine();
      System.out.println(contestant.measure(Double.parseDouble(contestant.flags.get("seconds"))));
      System.exit(0);
    } catch (Exception error) {
      // Threads of the library would keep the process alive, and silent.
      System.err.println(error);
      System.exit(1);
    }
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
    return tally.outcome(seconds, cpu);
  }

  private void client(int number, Tally tally, long end) {
    InterProcessMutex lock = locks.get(number);
    long hold = TimeUnit.MICROSECONDS.toNanos(Long.parseLong(flags.getOrDefault("hold-us", "0")));
    while (true) {
      long asked = System.nanoTime();
      if (asked >= end) return;
      boolean isHeld = acquire(lock, tally, end + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS));
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

  private static boolean acquire(InterProcessMutex lock, Tally tally, long limit) {
    while (true) {
      try {
        if (lock.acquire(PATIENCE_SECONDS, TimeUnit.SECONDS)) return true;
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

    String outcome(double seconds, long cpuNanos) {
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
          version(), seconds, cycles, failed.get(), least, most, cpuNanos / 1000, String.join(",", acquire));
    }

    /** Curator's jar says nothing in its manifest that the class loader passes on, but its name has the version. */
    private static String version() {
      String jar = InterProcessMutex.class.getProtectionDomain().getCodeSource().getLocation().getPath();
      return jar.replaceFirst(".*curator-recipes-(.*)\\.jar$", "$1");
    }
  }
}
