import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Measures Curator's InterProcessMutex: one connection. */
public final class CuratorContestant {
  public static void main(String[] args) {
    try {
      Contest contest = new Contest(args, InterProcessMutex.class);
      String host = contest.flags.get("nodes").replaceFirst("^zk://", "");
      int sessionMs = (int) contest.ttlMs();
      CuratorFramework framework =
          CuratorFrameworkFactory.newClient(host, sessionMs, 5000, new ExponentialBackoffRetry(100, 3));
      framework.start();
      contest.run(name -> lock(new InterProcessMutex(framework, "/locks/" + name)));
    } catch (Exception error) {
      Contest.fail(error);
    }
  }

  private static Contest.Lock lock(InterProcessMutex mutex) {
    return new Contest.Lock() {
      @Override
      public boolean acquire() throws Exception {
        return mutex.acquire(Contest.LAST_WAIT_SECONDS, TimeUnit.SECONDS);
      }

      @Override
      public void release() throws Exception {
        mutex.release();
      }
    };
  }
}
