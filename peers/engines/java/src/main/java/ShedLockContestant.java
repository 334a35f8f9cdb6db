import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;

/** Measures ShedLock on PostgreSQL: lease rows with the time of the server, through a pool of connections. */
public final class ShedLockContestant {
  /** The table of ShedLock's manual. */
  private static final String TABLE =
      "CREATE TABLE IF NOT EXISTS shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL,"
          + " locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))";

  public static void main(String[] args) {
    try {
      Contest contest = new Contest(args, LockProvider.class);
      JdbcTemplate template = new JdbcTemplate(pool(contest));
      template.execute(TABLE);
      LockProvider provider =
          new JdbcTemplateLockProvider(
              JdbcTemplateLockProvider.Configuration.builder().withJdbcTemplate(template).usingDbTime().build());
      Duration ttl = Duration.ofMillis(contest.ttlMs());
      contest.run(name -> new LeaseRow(provider, name, ttl));
    } catch (Exception error) {
      Contest.fail(error);
    }
  }

  private static HikariDataSource pool(Contest contest) {
    URI url = URI.create(contest.flags.get("nodes"));
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl("jdbc:postgresql://" + url.getAuthority().replaceFirst("^.*@", "") + url.getPath());
    config.setUsername(url.getUserInfo());
    config.setMaximumPoolSize(Math.min(contest.clients(), Integer.parseInt(contest.flags.get("pool"))));
    return new HikariDataSource(config);
  }

  /** One try is one call: ShedLock does not wait for a lock. */
  private static final class LeaseRow implements Contest.Lock {
    private final LockProvider provider;
    private final String name;
    private final Duration ttl;
    private SimpleLock held;

    LeaseRow(LockProvider provider, String name, Duration ttl) {
      this.provider = provider;
      this.name = name;
      this.ttl = ttl;
    }

    @Override
    public boolean acquire() {
      held = provider.lock(new LockConfiguration(Instant.now(), name, ttl, Duration.ZERO)).orElse(null);
      return held != null;
    }

    @Override
    public void release() {
      held.unlock();
    }
  }
}
