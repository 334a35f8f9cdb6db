import static java.nio.charset.StandardCharsets.US_ASCII;
import static java.nio.file.StandardOpenOption.READ;
import static java.nio.file.StandardOpenOption.WRITE;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.locks.LockSupport;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Puts Redisson behind the protocol of peers/README.md: RLock on one node, RedissonRedLock on more. */
public final class Contestant {
  /** How long a wait that is under way at the end may still take. */
  private static final long LAST_WAIT = TimeUnit.SECONDS.toNanos(10);

  private final Map<String, String> flags = new HashMap<>();
  private final List<RedissonClient> nodes = new ArrayList<>();
  /** Signed by whoever holds the lock, in whichever process; may be null. */
  private final FileChannel ledger;
  private final int clients;
  private final long ttl;

  private Contestant(String[] args) throws IOException {
    for (int i = 0; i + 1 < args.length; i += 2) flags.put(args[i].substring(2), args[i + 1]);
    clients = Integer.parseInt(flags.get("clients"));
    ttl = Long.parseLong(flags.getOrDefault("ttl-ms", "10000"));
    String path = flags.get("ledger");
    ledger = path == null ? null : FileChannel.open(Path.of(path), READ, WRITE);
    for (String url : flags.get("nodes").split(",")) nodes.add(connect(url));
  }

  public static void main(String[] args) {
    try {
      new Contestant(args).run();
      System.exit(0);
    } catch (Exception error) {
      // Threads of the library would keep the process alive, and silent.
      System.err.println(error);
      System.exit(1);
    }
  }

  private void run() throws Exception {
    double seconds = Double.parseDouble(flags.get("seconds"));
    if (flags.get("workload").equals("held")) {
      hold(seconds);
      return;
    }
    cycles(Double.parseDouble(flags.getOrDefault("warmup", "0")));
    told();
    System.out.println(cycles(seconds));
  }

  private RedissonClient connect(String url) {
    Config config = new Config();
    config.setLockWatchdogTimeout(ttl);
    // Otherwise one node that does not answer keeps the program from starting.
    config.setLazyInitialization(true);
    var server = config.useSingleServer().setAddress(url);
    server.setConnectionPoolSize(Math.min(clients, 100)).setConnectionMinimumIdleSize(Math.min(clients, 24));
    int limit = Integer.parseInt(flags.getOrDefault("node-timeout-ms", "0"));
    if (limit > 0) server.setTimeout(limit).setConnectTimeout(1000).setRetryAttempts(0);
    return Redisson.create(config);
  }

  private RLock lock(int client) {
    String prefix = flags.get("prefix");
    String name = flags.get("workload").equals("one") ? prefix : prefix + ":" + client;
    RLock[] locks = nodes.stream().map(node -> node.getLock(name)).toArray(RLock[]::new);
    return locks.length == 1 ? locks[0] : new RedissonRedLock(locks);
  }

  private static void told() throws Exception {
    System.out.println("ready");
    new BufferedReader(new InputStreamReader(System.in)).readLine();
  }

  private String cycles(double seconds) throws Exception {
    if (seconds <= 0) return "";
    Tally tally = new Tally(clients, ledger != null);
    long cpu = cpuNanos();
    long end = System.nanoTime() + (long) (seconds * 1e9);
    List<Thread> threads = new ArrayList<>();
    for (int client = 0; client < clients; client++) {
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
    long hold = TimeUnit.MICROSECONDS.toNanos(Long.parseLong(flags.getOrDefault("hold-us", "0")));
    while (true) {
      long asked = System.nanoTime();
      if (asked >= end) return;
      RLock lock = lock(number);
      boolean held = acquire(lock, tally, end + LAST_WAIT);
      tally.note(System.nanoTime() - asked);
      if (!held) return;
      boolean isHandoff = ledger != null && sign(number);
      if (hold > 0) LockSupport.parkNanos(hold);
      try {
        lock.unlock();
      } catch (RuntimeException error) {
        // A silent node, or the lock is gone there; the ttl frees it.
      }
      if (System.nanoTime() < end) {
        tally.counts.incrementAndGet(number);
        if (isHandoff) tally.handoffs.incrementAndGet();
      }
    }
  }

  /** Signs the ledger; true if the last who did was somebody else. */
  private boolean sign(int client) {
    byte[] name = String.format("%8d%8d", ProcessHandle.current().pid(), client).getBytes(US_ASCII);
    ByteBuffer last = ByteBuffer.allocate(name.length);
    try {
      if (ledger.read(last, 0) == name.length && Arrays.equals(last.array(), name)) return false;
      ledger.write(ByteBuffer.wrap(name), 0);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return true;
  }

  private boolean acquire(RLock lock, Tally tally, long limit) {
    while (true) {
      try {
        if (lock.tryLock(10_000, ttl, TimeUnit.MILLISECONDS)) return true;
      } catch (InterruptedException error) {
        return false;
      } catch (RuntimeException error) {
        // Counted below.
      }
      tally.failed.incrementAndGet();
      if (System.nanoTime() >= limit) return false;
    }
  }

  /** Takes all locks without a lease time, so that Redisson's watchdog keeps them. */
  private void hold(double seconds) throws Exception {
    Tally tally = new Tally(clients, ledger != null);
    List<RLock> locks = new ArrayList<>();
    for (int client = 0; client < clients; client++) {
      RLock lock = lock(client);
      lock.lock();
      locks.add(lock);
    }
    told();
    long cpu = cpuNanos();
    Thread.sleep((long) (seconds * 1000));
    cpu = cpuNanos() - cpu;
    System.out.println(tally.outcome(seconds, cpu));
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
    /** Cycles where another client had the lock before. */
    final AtomicInteger handoffs = new AtomicInteger();

    final boolean isCounted;

    Tally(int clients, boolean isCounted) {
      counts = new AtomicIntegerArray(clients);
      this.isCounted = isCounted;
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
      StringBuilder acquire = new StringBuilder();
      for (int i = 0; i < buckets.length(); i++) {
        if (buckets.get(i) == 0) continue;
        acquire.append(acquire.length() == 0 ? "" : ",").append("[" + i + "," + buckets.get(i) + "]");
      }
      return "{\"version\":\"" + Redisson.class.getPackage().getImplementationVersion() + "\",\"seconds\":" + seconds
          + ",\"cycles\":" + cycles + ",\"handoffs\":" + (isCounted ? handoffs.get() : "null") + ",\"failed\":" + failed.get() + ",\"least\":" + least + ",\"most\":" + most
          + ",\"cpu_us\":" + cpuNanos / 1000 + ",\"acquire\":[" + acquire + "]}";
    }
  }
}
