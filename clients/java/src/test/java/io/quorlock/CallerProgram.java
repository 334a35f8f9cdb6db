package io.quorlock;

import io.quorlock.QuorlockException.LockLost;
import java.time.Duration;

/** A program that uses the client, for tests that pause or kill it. */
final class CallerProgram {
    private CallerProgram() {}

    public static void main(String[] words) throws Exception {
        Client client = Client.at(words[1]);
        switch (words[0]) {
            case "takes" -> {
                Lease lease = client.lock("late").ttl(Duration.ofSeconds(2)).acquireByToken(Duration.ofSeconds(60));
                System.out.println(lease.isHeld() + " " + lease.remaining().toMillis());
            }
            case "holds" -> {
                Lease hold = client.lock("stale").ttl(Duration.ofSeconds(4)).acquire();
                System.out.println("held");
                System.in.read();
                int passed = 0;
                for (long end = System.nanoTime() + 500_000_000; System.nanoTime() < end; ) {
                    try {
                        hold.ensureHeld();
                        passed++;
                    } catch (LockLost lost) {
                        // As it should be.
                    }
                }
                System.out.println(passed + " " + hold.remaining().toMillis() + " " + hold.lost().get().code());
            }
            case "waits for ever" -> {
                client.lock("killed").ttl(Duration.ofSeconds(30)).acquire();
                System.out.println("held");
                Thread.sleep(3_600_000);
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
        System.exit(0);
    }
}
