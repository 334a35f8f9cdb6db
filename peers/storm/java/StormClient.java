import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Puts Redisson's RedissonRedLock behind the protocol of a storm's client; see peers/README.md.
 *
 * <p>usage: StormClient ID SEED RESOURCE TTL_MS NODE_TIMEOUT_MS WAIT_MS URL...
 */
public final class StormClient {
  private static final List<String> NAMES = List.of("a", "b", "c");
  private static final long RECOVERY_LIMIT = TimeUnit.SECONDS.toNanos(60);
  /** The validity that is reported: the library keeps a lock until it is released, and never says that it is lost. */
  private static final long UNLIMITED = TimeUnit.DAYS.toMicros(1);

  private static final PrintStream REPORTS = new PrintStream(System.out, true, UTF_8);

  private static volatile boolean isRecovering;

  private final String me;
  private final Random random;
  private final Resource values;
  private final long ttl;
  private final long wait;
  private final List<RedissonClient> nodes;
  private long writes;

  private StormClient(String[] words) throws IOException {
    me = words[0];
    random = new Random(Long.parseUnsignedLong(words[1]));
    values = new Resource(words[2]);
    ttl = Long.parseLong(words[3]);
    int nodeTimeout = Integer.parseInt(words[4]);
    wait = Long.parseLong(words[5]);
    nodes = Arrays.stream(words).skip(6).map(url -> connect(url, nodeTimeout)).toList();
  }

  public static void main(String[] words) {
    Thread orders = new Thread(StormClient::followOrders);
    orders.setDaemon(true);
    orders.start();
    try {
      new StormClient(words).run();
    } catch (Exception error) {
      // Threads of the library would keep the process alive, and silent.
      System.err.println(error);
      System.exit(1);
    }
  }

  /** Ends the process with its input. */
  private static void followOrders() {
    try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
      while (lines.readLine() != null) isRecovering = true;
    } catch (IOException error) {
      // It ends all the same.
    }
    Runtime.getRuntime().halt(0);
  }

  private RedissonClient connect(String url, int nodeTimeout) {
    Config config = new Config();
    config.setLockWatchdogTimeout(ttl);
    // Otherwise one node that does not answer keeps the program from starting.
    config.setLazyInitialization(true);
    config.setThreads(2).setNettyThreads(2);
    var server = config.useSingleServer().setAddress(url);
    server.setConnectionPoolSize(4).setConnectionMinimumIdleSize(1);
    server.setTimeout(nodeTimeout).setConnectTimeout(1000).setRetryAttempts(0);
    return Redisson.create(config);
  }

  private void run() throws Exception {
    while (!isRecovering) {
      String name = NAMES.get(random.nextInt(NAMES.size()));
      RLock lock = acquire(name);
      if (lock != null) {
        workUnder(name);
        release(lock);
      }
      sleep(random.nextDouble() * 10);
    }
    for (String name : NAMES) recover(name);
    report("done");
    Thread.currentThread().join();
  }

  private RLock acquire(String name) throws InterruptedException {
    RLock lock = new RedissonRedLock(nodes.stream().map(node -> node.getLock(name)).toArray(RLock[]::new));
    long called = now();
    report("calling acquire " + called);
    boolean isGranted = false;
    try {
      // Without a lease time the library extends the lock by itself.
      isGranted = lock.tryLock(wait, -1, TimeUnit.MILLISECONDS);
    } catch (RuntimeException error) {
      // Refused.
    }
    report("returned " + now());
    if (!isGranted) {
      report("refused");
      return null;
    }
    long noted = now();
    report("granted " + name + " 0 - " + called + " " + noted + " " + (noted + UNLIMITED));
    return lock;
  }

  /** Reads, thinks, writes, again and again. Mostly short; now and then beyond the ttl. */
  private void workUnder(String name) throws IOException {
    boolean isLong = random.nextInt(100) < 2;
    double longest = isLong ? 2.0 * ttl : 15;
    double step = isLong ? 80 : 5;
    long until = System.nanoTime() + (long) ((1 + random.nextDouble() * longest) * 1e6);
    while (System.nanoTime() < until) {
      String parent = values.ask("GET", "plain:" + name).split("<", 2)[0];
      sleep(random.nextDouble() * step);
      writes++;
      values.ask("SET", "plain:" + name, me + "." + writes + "<" + parent);
    }
  }

  private void release(RLock lock) {
    report("releasing " + now() + " false");
    report("calling release " + now());
    try {
      lock.unlock();
    } catch (RuntimeException error) {
      // A silent node, or the lock is gone there; the ttl frees it.
    }
    report("returned " + now());
  }

  private void recover(String name) throws InterruptedException {
    long start = System.nanoTime();
    RLock lock = acquire(name);
    while (lock == null && System.nanoTime() - start < RECOVERY_LIMIT) lock = acquire(name);
    report("recovered " + name + " " + (lock != null));
    if (lock != null) release(lock);
  }

  /** The monotonic clock in microseconds: on Linux the same in all processes of a machine. */
  private static long now() {
    return System.nanoTime() / 1000;
  }

  private static void sleep(double ms) {
    LockSupport.parkNanos((long) (ms * 1e6));
  }

  private static void report(String line) {
    REPORTS.println(line);
  }

  /** What the locks protect: a value for each name on a server that is always up. */
  private static final class Resource {
    private final SocketChannel channel;
    private final BufferedReader replies;

    Resource(String socket) throws IOException {
      channel = SocketChannel.open(StandardProtocolFamily.UNIX);
      channel.connect(UnixDomainSocketAddress.of(socket));
      replies = new BufferedReader(Channels.newReader(channel, UTF_8));
    }

    /** Values are single lines of ASCII. */
    String ask(String... words) throws IOException {
      StringBuilder request = new StringBuilder("*" + words.length + "\r\n");
      for (String word : words) request.append("$" + word.length() + "\r\n" + word + "\r\n");
      ByteBuffer bytes = ByteBuffer.wrap(request.toString().getBytes(UTF_8));
      while (bytes.hasRemaining()) channel.write(bytes);
      String head = replies.readLine();
      return head.startsWith("$") && !head.equals("$-1") ? replies.readLine() : "";
    }
  }
}
