package io.quorlock;

import static io.quorlock.Kit.LONG;
import static io.quorlock.Kit.until;
import static io.quorlock.Kit.untilWaits;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.quorlock.QuorlockException.LockLost;
import io.quorlock.QuorlockException.NoQuorum;
import io.quorlock.QuorlockException.TooManyNames;
import io.quorlock.QuorlockException.TooManyWaiters;
import io.quorlock.QuorlockException.Unreachable;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Clients that stand still, and sidecars and nodes that fail: nobody counts on a lock that is over. */
@Timeout(180)
class TroubleTest {
    private final Client client = Client.at(Kit.sidecar().url);

    private static Duration seconds(long seconds) {
        return Duration.ofSeconds(seconds);
    }

    private static void assertBetween(Duration least, Duration most, Duration found) {
        assertTrue(least.compareTo(found) < 0 && found.compareTo(most) < 0, found.toString());
    }

    private static void untilLost(Lease lease) throws Exception {
        lease.lost().get(LONG.toSeconds(), TimeUnit.SECONDS);
        assertThrows(LockLost.class, lease::ensureHeld);
        assertEquals(Duration.ZERO, lease.remaining());
    }

    @Test
    void aLeaseThatEndedBeforeItsAnswerWasReadHasNoTimeLeft() throws Exception {
        Lease first = client.lock("late").ttl(seconds(20)).acquireByToken(Duration.ZERO);
        try (Kit.Caller caller = new Kit.Caller("takes", Kit.sidecar().url)) {
            untilWaits(client, "late");
            caller.pause();
            first.close();
            until(() -> client.status("late").fence() > first.fence());
            Lease second = client.lock("late").ttl(seconds(20)).acquireByToken(LONG);
            caller.resume();
            assertEquals("false 0", caller.line());
            second.ensureHeld();
            second.close();
        }
    }

    @Test
    void aLeaseHasTheTimeThatItHasAfterAWait() throws Exception {
        Lease first = client.lock("waited").ttl(seconds(3)).acquireByToken(Duration.ZERO);
        assertBetween(seconds(2), seconds(3), first.remaining());
        Lease second = client.lock("waited").ttl(seconds(20)).acquireByToken(LONG);
        assertBetween(seconds(18), seconds(20), second.remaining());
        untilLost(first);
        second.close();
    }

    @Test
    void aSidecarWithAnotherBootClockServesAsWell() throws Exception {
        try (Kit.Recorder recorder = new Kit.Recorder(Kit.sidecar().url, Kit::otherBootClock)) {
            Client far = Client.at(recorder.url);
            Lease first = far.lock("far").ttl(seconds(2)).acquireByToken(Duration.ZERO);
            Lease second = far.lock("far").ttl(seconds(20)).acquireByToken(LONG);
            untilLost(first);
            assertBetween(seconds(18), seconds(20), second.remaining());
            try (Lease hold = far.lock("far-hold").ttl(seconds(4)).acquire()) {
                Thread.sleep(5_000);
                hold.ensureHeld();
                assertBetween(Duration.ZERO, seconds(4), hold.remaining());
            }
            second.close();
        }
    }

    @Test
    void clocksOfTwoMachinesMayRunApart() {
        long now = 1_000_000, asked = now - 100_000;
        Said ours = new Said(Map.of("request_age_ms", 100_000L, "remaining_ms", 5_000L, "deadline_boot_ms", asked + 105_001));
        assertEquals(asked + 105_000, BootClock.deadline(ours, asked, now));
        // A thousandth of the time that was measured on two clocks.
        Said theirs = new Said(Map.of("request_age_ms", 100_000L, "remaining_ms", 5_000L, "deadline_boot_ms", 9_000_000_000L));
        assertEquals(asked + 104_900, BootClock.deadline(theirs, asked, now));
        // What no sidecar says is no time.
        assertEquals(asked, BootClock.deadline(new Said(Map.of("remaining_ms", -5L)), asked, now));
    }

    @Test
    void theClockGoesOnWhileTheMachineSleeps() {
        BootClock.Longer clock = new BootClock.Longer(5_000_000_000L, 1_000_000);
        assertEquals(1_000, clock.read(6_000_000_000L, 1_001_000));
        // Only the calendar went on: the machine slept.
        assertEquals(62_000, clock.read(7_000_000_000L, 1_062_000));
        // The calendar was set back.
        assertEquals(63_000, clock.read(8_000_000_000L, 500_000));
        assertEquals(124_000, clock.read(9_000_000_000L, 561_000));
        long first = BootClock.SYSTEM.getAsLong();
        assertTrue(first > 0 && BootClock.SYSTEM.getAsLong() >= first);
    }

    @Test
    void aMachineThatSleptOverTheDeadlineIsToldSoonAfterItWakes() throws Exception {
        AtomicLong slept = new AtomicLong();
        Client sleepy = Client.builder().url(Kit.sidecar().url).clock(() -> BootClock.SYSTEM.getAsLong() + slept.get()).build();
        Lease hold = sleepy.lock("slept").ttl(seconds(30)).acquire();
        Lease lease = sleepy.lock("slept too").ttl(seconds(30)).acquireByToken(Duration.ZERO);
        CompletableFuture<LockLost> told = hold.lost();
        // The clock of the machine went on for an hour, and that of timers did not.
        slept.set(3_600_000);
        told.get(6, TimeUnit.SECONDS);
        assertFalse(lease.isHeld());
    }

    @Test
    void anEventThatWasReadLateExtendsNothing() throws Exception {
        try (Kit.Sidecar frozen = new Kit.Sidecar(Kit.nodes().urls);
                Kit.Recorder recorder = new Kit.Recorder(frozen.url, UnaryOperator.identity());
                Kit.Caller caller = new Kit.Caller("holds", recorder.url)) {
            assertEquals("held", caller.line());
            caller.pause();
            int before = recorder.answered().split("event: extended").length;
            until(() -> recorder.answered().split("event: extended").length > before);
            frozen.signal("STOP");
            try (Lease next = client.lock("stale").acquire(LONG)) {
                caller.tell("go on");
                caller.resume();
                assertEquals("0 0 lost", caller.line());
                next.ensureHeld();
            }
        }
    }

    @Test
    void aHoldIsLostWhenItsLastDeadlineIsOverEvenIfCommentsCome() throws Exception {
        try (Kit.Wires wires = new Kit.Wires(Kit.nodes(), 3);
                Kit.Sidecar frozen = new Kit.Sidecar(wires.urls);
                Kit.Recorder recorder = new Kit.Recorder(frozen.url, UnaryOperator.identity())) {
            Lease hold = Client.at(recorder.url).lock("commented").ttl(seconds(6)).acquire();
            wires.close();
            until(() -> {
                String said = recorder.answered();
                return said.substring(Math.max(0, said.lastIndexOf("event: extended"))).split(": alive\n", -1).length > 2;
            });
            frozen.signal("STOP");
            try (Lease next = client.lock("commented").acquire(LONG)) {
                assertFalse(hold.isHeld());
                untilLost(hold);
                next.ensureHeld();
            }
        }
    }

    @Test
    void itIsLostWhenMostNodesDie() throws Exception {
        try (Kit.Nodes mortal = new Kit.Nodes(); Kit.Sidecar ours = new Kit.Sidecar(mortal.urls)) {
            Client caller = Client.at(ours.url);
            Lease lease = caller.lock("mortal").ttl(seconds(4)).acquire();
            mortal.kill(2);
            Thread.sleep(1_000);
            lease.ensureHeld(); // Two of five may fail.
            mortal.kill(1);
            untilLost(lease);
            NoQuorum error = assertThrows(NoQuorum.class, () -> caller.lock("mortal").acquireByToken(Duration.ZERO));
            assertEquals(5, error.nodes().size());
        }
    }

    @Test
    void aSidecarThatEndsIsNoticed() throws Exception {
        for (List<String> how : List.of(List.of("KILL", "sidecar"), List.of("TERM", "shut down"))) {
            try (Kit.Sidecar mortal = new Kit.Sidecar(Kit.nodes().urls)) {
                Client caller = Client.at(mortal.url);
                Lease lease = caller.lock("orphan").ttl(seconds(4)).acquire(LONG);
                long start = System.nanoTime();
                mortal.signal(how.get(0));
                untilLost(lease);
                assertTrue(System.nanoTime() - start < 10_000_000_000L);
                String why = assertThrows(LockLost.class, lease::close).getMessage();
                assertTrue(why.contains(how.get(1)), why);
                mortal.await();
                assertThrows(Unreachable.class, () -> caller.lock("orphan").acquire());
            }
            client.lock("orphan").acquire(LONG).close(); // Free after its ttl, or at once.
        }
    }

    @Test
    void aFrozenSidecarIsGivenUpBeforeOthersHaveTheLock() throws Exception {
        try (Kit.Sidecar frozen = new Kit.Sidecar(Kit.nodes().urls)) {
            Lease lease = Client.at(frozen.url).lock("frozen").ttl(seconds(2)).acquire();
            CompletableFuture<Long> given = lease.lost().thenApply(why -> System.nanoTime());
            frozen.signal("STOP");
            try (Lease next = client.lock("frozen").acquire(LONG)) {
                long had = System.nanoTime();
                assertTrue(given.get() < had, "the signal comes before another has the lock");
                untilLost(lease);
                assertTrue(next.fence() > lease.fence());
            }
        }
    }

    @Test
    void aFrozenSidecarDoesNotHoldUpARelease() throws Exception {
        try (Kit.Sidecar frozen = new Kit.Sidecar(Kit.nodes().urls)) {
            Client caller = Client.builder().url(frozen.url).timeout(seconds(1)).build();
            Lease hold = caller.lock("stuck").ttl(seconds(20)).acquire();
            Lease lease = caller.lock("stuck too").ttl(seconds(20)).acquireByToken(Duration.ZERO);
            frozen.signal("STOP");
            assertEquals(Outcome.UNCONFIRMED, hold.release());
            assertThrows(Unreachable.class, lease::release);
        }
    }

    @Test
    void aKilledHolderFreesItAtOnce() throws Exception {
        try (Kit.Caller caller = new Kit.Caller("waits for ever", Kit.sidecar().url)) {
            assertEquals("held", caller.line());
        }
        long start = System.nanoTime();
        client.lock("killed").acquire(LONG).close();
        assertTrue(System.nanoTime() - start < 10_000_000_000L, "far below the ttl of 30 s");
    }

    @Test
    void theLimitsOfTheSidecarHaveTheirOwnErrors() throws Exception {
        try (Kit.Sidecar small = new Kit.Sidecar(Kit.nodes().urls, "--max-waiters", "1", "--max-new-names", "1")) {
            Client caller = Client.at(small.url);
            Lease lease = caller.lock("limited").acquire();
            CompletableFuture<Void> waiting = CompletableFuture.runAsync(() -> {
                try {
                    caller.lock("limited").acquire(LONG).close();
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
            });
            untilWaits(caller, "limited");
            assertThrows(TooManyWaiters.class, () -> caller.lock("limited").acquireByToken(seconds(1)));
            lease.close();
            waiting.get();
            assertThrows(TooManyNames.class, () -> {
                for (int number = 0; number < 200; number++) {
                    try {
                        caller.lock("limited-" + number).ttl(seconds(1)).acquireByToken(Duration.ZERO);
                    } catch (NoQuorum error) {
                        // On a loaded machine nodes may be too slow now and then.
                    }
                }
            });
        }
    }
}
