package io.quorlock;

import static io.quorlock.Kit.LONG;
import static io.quorlock.Kit.until;
import static io.quorlock.Kit.untilWaits;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.quorlock.QuorlockException.BadRequest;
import io.quorlock.QuorlockException.Forbidden;
import io.quorlock.QuorlockException.Held;
import io.quorlock.QuorlockException.LockLost;
import io.quorlock.QuorlockException.NamesHeld;
import io.quorlock.QuorlockException.NoPermit;
import io.quorlock.QuorlockException.SlotsDiffer;
import io.quorlock.QuorlockException.Unauthorized;
import io.quorlock.QuorlockException.Unreachable;
import io.quorlock.QuorlockException.WaitOver;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** The client against real sidecars and real servers. */
@Timeout(180)
class QuorlockTest {
    private static final Duration NO_WAIT = Duration.ZERO;

    private final Client client = Client.at(Kit.sidecar().url);

    private static Duration seconds(long seconds) {
        return Duration.ofSeconds(seconds);
    }

    @Test
    void oneHoldsItAndTheOtherIsToldWho() throws Exception {
        Lease lease = client.lock("one").ttl(seconds(20)).owner("ann").reason("a test").acquire();
        try (lease) {
            lease.ensureHeld();
            lease.extend();
            assertTrue(lease.remaining().compareTo(seconds(10)) > 0);
            Held held = assertThrows(Held.class, () -> client.lock("one").acquire(NO_WAIT));
            assertEquals(List.of("ann", "a test"), List.of(held.holder().owner(), held.holder().reason()));
            assertEquals(List.of("held", 409), List.of(held.code(), held.status()));
            assertTrue(held.left().compareTo(seconds(10)) > 0);
            assertEquals(Optional.empty(), client.lock("one").tryAcquire());
            long start = System.nanoTime();
            assertThrows(WaitOver.class, () -> client.lock("one").acquire(Duration.ofMillis(300)));
            assertTrue(System.nanoTime() - start >= 300_000_000);
        }
        assertEquals(Outcome.RELEASED, lease.release());
        assertFalse(lease.isHeld());
        assertThrows(IllegalStateException.class, lease::ensureHeld);
        assertFalse(lease.lost().isDone());
        // Free the moment that it was released.
        client.lock("one").tryAcquire().orElseThrow().close();
        // A hold whose lock is gone is not released but lost.
        Lease gone = client.lock("one").acquire();
        client.release(gone.handle());
        assertThrows(LockLost.class, gone::close);
    }

    @Test
    void whoeverWaitsGetsItNextWithALargerFence() throws Exception {
        Lease first = client.lock("next").acquire();
        Future<Lease> second = async(() -> client.lock("next").acquire(LONG));
        untilWaits(client, "next");
        first.close();
        try (Lease lease = second.get()) {
            assertTrue(lease.fence() > first.fence());
        }
    }

    @Test
    void readersShareAndKeepAWriterOut() throws Exception {
        try (Lease ann = client.lock("shared").shared().owner("ann").acquire();
                Lease bob = client.lock("shared").shared().owner("bob").acquire()) {
            Held held = assertThrows(Held.class, () -> client.lock("shared").acquire(NO_WAIT));
            assertEquals(List.of("ann", "bob"), held.readers().stream().map(Reader::owner).toList());
            LockView found = client.status("shared");
            assertEquals("shared", found.mode());
            assertNull(found.holder());
            assertEquals(2, found.readers().size());
            assertEquals(ann.mode(), bob.mode());
        }
        try (Lease writer = client.lock("shared").acquire(LONG)) {
            assertEquals("exclusive", client.status("shared").mode());
            assertEquals("exclusive", writer.mode());
        }
    }

    @Test
    void severalNamesAreHeldTogetherOrNotAtAll() throws Exception {
        try (Lease both = client.locks("set b", "set/a").owner("ann").acquire()) {
            assertEquals(List.of("set b", "set/a"), both.names());
            NamesHeld held = assertThrows(NamesHeld.class, () -> client.locks("set c", "set/a").acquire(NO_WAIT));
            assertEquals(1, held.names().size());
            assertEquals(List.of("set/a", "ann"), List.of(held.names().get(0).name(), held.names().get(0).holder().owner()));
            assertFalse(client.status("set c").held());
        }
        client.locks("set/a").acquire(LONG).close();
        assertThrows(BadRequest.class, () -> client.locks("twice", "twice").acquire());
        String[] many = IntStream.range(0, 16).mapToObj(number -> "set-" + number).toArray(String[]::new);
        assertThrows(BadRequest.class, () -> client.locks("set", many).acquire());
    }

    @Test
    void permitsAreNeverMoreThanSlots() throws Exception {
        AtomicInteger holding = new AtomicInteger();
        crowd(5, () -> {
            for (int turn = 0; turn < 3; turn++) {
                try (Lease permit = client.semaphore("slots", 2).acquire(LONG)) {
                    assertTrue(holding.incrementAndGet() <= 2 && permit.slot() < 2);
                    Thread.sleep(5);
                    holding.decrementAndGet();
                }
            }
            return null;
        });
        try (Lease one = client.semaphore("slots", 2).acquire(LONG); Lease two = client.semaphore("slots", 2).acquire(LONG)) {
            assertEquals(1, one.slot() + two.slot());
            assertThrows(NoPermit.class, () -> client.semaphore("slots", 2).acquire(NO_WAIT));
            assertEquals(2, assertThrows(SlotsDiffer.class, () -> client.semaphore("slots", 3).acquire(NO_WAIT)).recorded());
        }
        for (int slots : new int[] {0, 1025}) {
            assertThrows(BadRequest.class, () -> client.semaphore("slots", slots).acquire());
        }
    }

    @Test
    void leasesByTokenCoverReadersSetsAndPermitsAtAnotherSidecarToo() throws Exception {
        try (Kit.Sidecar other = new Kit.Sidecar(Kit.nodes().urls)) {
            List<LockRequest> wanted =
                    List.of(client.lock("token-0").shared(), client.locks("token-1", "token-b"), client.semaphore("token-2", 3));
            for (LockRequest request : wanted) {
                for (Client elsewhere : List.of(client, Client.at(other.url))) {
                    // Released elsewhere, a name stays claimed here until its deadline: so each has its own.
                    Lease lease = request.ttl(seconds(20)).acquireByToken(NO_WAIT);
                    Lease longer = elsewhere.extend(lease.handle(), seconds(25));
                    assertEquals(lease.fence(), longer.fence());
                    assertEquals(lease.names(), longer.names());
                    assertEquals(lease.slot(), longer.slot());
                    assertEquals(Outcome.RELEASED, elsewhere.release(lease.handle()));
                    assertThrows(LockLost.class, lease::extend);
                    assertEquals("lost", lease.lost().get().code());
                }
            }
        }
    }

    @Test
    void oneLeadsAfterAnotherAndFollowersSeeIt() throws Exception {
        Election election = client.election("chair/1");
        assertEquals(Optional.empty(), election.leader());
        long last;
        try (Leaders leaders = election.observe()) {
            Leadership first = election.campaign("a:1", LONG, seconds(10), "ann");
            Leader leader = election.leader().orElseThrow();
            assertEquals(List.of("a:1", first.term(), "ann"), List.of(leader.value(), leader.term(), leader.owner()));
            assertEquals(first.term(), leaders.next().orElseThrow().term());
            Future<Leadership> campaigning = async(() -> election.campaign("b:2"));
            untilWaits(client, "chair/1");
            assertThrows(Held.class, () -> election.campaign("c:3", NO_WAIT));
            first.close();
            Leadership second = campaigning.get();
            assertTrue(second.term() > first.term());
            assertEquals("b:2", second.value());
            Optional<Leader> seen = leaders.next();
            if (seen.isEmpty()) seen = leaders.next(); // Nobody led for a moment.
            assertEquals(List.of("b:2", second.term()), List.of(seen.orElseThrow().value(), seen.orElseThrow().term()));
            second.close();
            assertEquals(Optional.empty(), leaders.next());
            last = second.term();
        }
        Leaders later = election.observe(last);
        assertEquals(Optional.empty(), later.next());
        Future<Optional<Leader>> waiting = async(later::next);
        Thread.sleep(100);
        later.close();
        assertTrue(assertThrows(ExecutionException.class, waiting::get).getCause() instanceof Unreachable);
        assertThrows(BadRequest.class, () -> election.campaign(""));
    }

    @Test
    void anInterruptEndsTheWaitingAndLeavesNoLockBehind() throws Exception {
        Lease lease = client.lock("given-up").acquire();
        for (boolean isByToken : new boolean[] {false, true}) {
            CompletableFuture<Throwable> failed = new CompletableFuture<>();
            LockRequest request = client.lock("given-up");
            Thread waiter = new Thread(() -> {
                try {
                    failed.complete(new AssertionError(isByToken ? request.acquireByToken(LONG) : request.acquire(LONG)));
                } catch (Throwable error) {
                    failed.complete(error);
                }
            });
            waiter.start();
            untilWaits(client, "given-up");
            waiter.interrupt();
            assertEquals(InterruptedException.class, failed.get().getClass());
            until(() -> client.status("given-up").waiters() == 0);
        }
        // A thread that was interrupted releases as well.
        Thread.currentThread().interrupt();
        assertEquals(Outcome.RELEASED, lease.release());
        assertTrue(Thread.interrupted());
        client.lock("given-up").acquire(NO_WAIT).close();
    }

    @Test
    void runGivesTheResultPassesErrorsOnAndLetsGo() throws Exception {
        assertTrue(client.lock("work").<Boolean, RuntimeException>run(LONG, lease -> lease.fence() > 0));
        assertThrows(java.io.IOException.class, () -> client.lock("work").run(NO_WAIT, lease -> {
            throw new java.io.IOException("of the work");
        }));
        assertFalse(client.status("work").held());
    }

    @Test
    void itOutlivesItsTtlWhileItIsHeld() throws Exception {
        // On a loaded machine an extension may be a second late.
        try (Lease lease = client.lock("kept").ttl(seconds(4)).acquire()) {
            Thread.sleep(5_000);
            lease.ensureHeld();
        }
    }

    @Test
    void forcedAwayItIsLost() throws Exception {
        Client operator = Client.at(Kit.sidecar().unix);
        CompletableFuture<String> told = new CompletableFuture<>();
        LockLost lost = assertThrows(LockLost.class, () -> {
            try (Lease lease = client.lock("forced").ttl(seconds(6)).acquire()) {
                lease.onLost(why -> told.complete(why.getMessage()));
                assertEquals(Outcome.RELEASED, operator.forceRelease(new Handle("forced", operator.status("forced").token())));
                assertTrue(told.get().contains("forced"));
                assertEquals(Duration.ZERO, lease.remaining());
                assertFalse(lease.isHeld());
                lease.lost().get();
                assertThrows(LockLost.class, lease::ensureHeld);
            }
        });
        assertTrue(lost.getMessage().contains("forced"));
        // The exception of the block is not hidden by the loss.
        LockLost own = assertThrows(LockLost.class, () -> {
            try (Lease lease = client.lock("forced").ttl(seconds(6)).acquire(LONG)) {
                operator.forceRelease(lease.handle());
                lease.lost().get();
                lease.ensureHeld();
            }
        });
        assertEquals(1, own.getSuppressed().length);
    }

    @Test
    void takenExtendedAndReleasedByToken() throws Exception {
        Lease lease = client.lock("token").ttl(seconds(20)).reason("by token").acquireByToken(NO_WAIT);
        Handle handle = lease.handle();
        assertTrue(handle.token().matches("[0-9a-f]{32}"));
        assertFalse((lease + " " + handle).contains(handle.token()));
        lease.extend(seconds(25));
        assertTrue(lease.remaining().compareTo(seconds(20)) > 0);
        LockView found = client.status("token");
        assertEquals(List.of(true, lease.fence(), "by token"), List.of(found.held(), found.fence(), found.holder().reason()));
        assertNull(found.token(), "scope lock does not see tokens");
        assertEquals(Outcome.RELEASED, lease.release());
        assertThrows(LockLost.class, () -> client.release(handle));
        assertThrows(LockLost.class, () -> client.extend(handle, null));
    }

    @Test
    void nobodyElseExtendsALease() throws Exception {
        Lease lease = client.lock("short").ttl(seconds(1)).acquireByToken(NO_WAIT);
        Lease again = client.lock("short").ttl(seconds(20)).acquireByToken(LONG);
        assertEquals("lost", lease.lost().get().code());
        assertThrows(LockLost.class, lease::extend);
        assertThrows(LockLost.class, lease::close);
        assertTrue(again.fence() > lease.fence());
        again.close();
    }

    @Test
    void anyNameIsAName() throws Exception {
        for (String name : List.of("Straße/東京 #1?%20&x=y", "a/b/../c", ".", "..", "🔒", "%", " ", "a+b;c*~", "x".repeat(512))) {
            try (Lease lease = client.lock(name).reason("für \"alle\"").acquire()) {
                assertEquals(name, client.status(name).name());
                assertEquals("für \"alle\"", client.status(name).holder().reason());
                assertEquals(name, lease.name());
            }
        }
        try (Lease lease = client.lock("Straße/東京").acquire()) {
            until(() -> client.list().stream().anyMatch(one -> one.name().equals(lease.name())));
        }
        assertTrue(client.overview().containsKey("quorum"));
    }

    @Test
    void whatCannotBeUsedIsToldApart() {
        Handle handle = new Handle("x", "no token");
        record Bad(String code, Executable call) {}
        for (Bad bad : List.of(
                new Bad("bad_name", () -> client.lock("tab\t").acquireByToken(NO_WAIT)),
                new Bad("bad_name", () -> client.lock("x".repeat(513)).acquireByToken(NO_WAIT)),
                new Bad("bad_name", () -> client.lock("quorlock:epoch").acquireByToken(NO_WAIT)),
                new Bad("bad_name", () -> client.lock("new\nline").acquire()),
                new Bad("bad_ttl", () -> client.lock("x").ttl(NO_WAIT).acquireByToken(NO_WAIT)),
                new Bad("bad_ttl", () -> client.lock("x").ttl(NO_WAIT).acquire()),
                new Bad("bad_request", () -> client.lock("x").ttl(seconds(-1)).acquireByToken(NO_WAIT)),
                new Bad("bad_request", () -> client.lock("x").acquireByToken(Duration.ofHours(300))),
                new Bad("bad_token", () -> client.extend(handle, null)),
                new Bad("bad_token", () -> client.release(handle)))) {
            BadRequest error = assertThrows(BadRequest.class, bad.call());
            assertEquals(bad.code(), error.code());
            assertEquals(400, error.status());
        }
        for (String url : List.of("localhost:7420", "ftp://x", "unix:relative", "http://x/path", "http://user:secret@x", "http://a b:secret@x")) {
            assertFalse(assertThrows(IllegalArgumentException.class, () -> Client.at(url)).getMessage().contains("secret"), url);
        }
        Client guessing = Client.builder().url(Kit.sidecar().url).token("guessed-guessed").build();
        assertThrows(Unauthorized.class, () -> guessing.lock("x").acquire());
        assertFalse(guessing.toString().contains("guessed"));
        for (String url : List.of("http://127.0.0.1:1", "unix:/nowhere/at/all.sock")) {
            assertThrows(Unreachable.class, () -> Client.at(url).lock("x").acquire());
            assertThrows(Unreachable.class, () -> Client.at(url).lock("x").acquireByToken(NO_WAIT));
        }
    }

    @Test
    void tokensAreNeverInAddresses() throws Exception {
        try (Kit.Recorder recorder = new Kit.Recorder(Kit.sidecar().url, said -> said)) {
            String secret = "a-secret-of-the-token-file";
            assertThrows(Unauthorized.class, () -> Client.builder().url(recorder.url).token(secret).build().lock("seen").acquire());
            Client through = Client.at(recorder.url);
            Lease hold = through.lock("seen").acquire();
            hold.close();
            Lease lease = through.lock("seen").acquireByToken(LONG);
            lease.extend();
            lease.close();
            List<String> lines = Pattern.compile("(GET|POST) /\\S* HTTP/1.1\r\n").matcher(recorder.sent()).results()
                    .map(found -> found.group()).toList();
            assertEquals(6, lines.size());
            for (String line : lines) {
                for (String token : List.of(hold.handle().token(), lease.handle().token(), secret)) assertFalse(line.contains(token));
            }
        }
    }

    @Test
    void scopes(@TempDir Path dir) throws Exception {
        Path file = dir.resolve("tokens");
        String end = "-secret-0123456789";
        Files.writeString(file, "read:read" + end + "\nlock:lock" + end + "\nwrite:write" + end + "\n");
        assertTrue(file.toFile().setReadable(false, false) && file.toFile().setReadable(true, true));
        try (Kit.Sidecar guarded = new Kit.Sidecar(Kit.nodes().urls, "--token-file", file.toString())) {
            for (String url : List.of(guarded.url, guarded.unix)) {
                Client.Builder at = Client.builder().url(url);
                assertThrows(Unauthorized.class, () -> at.build().lock("scoped").acquire());
                assertThrows(Unauthorized.class, () -> at.token("guessed" + end).build().lock("scoped").acquire());
                assertThrows(Forbidden.class, () -> at.token("read" + end).build().lock("scoped").acquireByToken(NO_WAIT));
                Client lock = at.token("lock" + end).build();
                try (Lease lease = lock.lock("scoped").acquire()) {
                    assertThrows(Forbidden.class, () -> lock.forceRelease(lease.handle()));
                    assertEquals(lease.handle().token(), at.token("write" + end).build().status("scoped").token());
                }
            }
        }
    }

    @Test
    void aHundredThreadsLoseNoUpdate(@TempDir Path dir) throws Exception {
        Path file = Files.writeString(dir.resolve("counter"), "0");
        List<Long> fences = new ArrayList<>();
        crowd(100, () -> {
            try (Lease lease = client.lock("crowd").ttl(seconds(20)).acquire(seconds(100))) {
                int before = Integer.parseInt(Files.readString(file));
                Thread.sleep(1);
                fences.add(lease.fence());
                Files.writeString(file, Integer.toString(before + 1));
                lease.ensureHeld();
            }
            return null;
        });
        assertEquals("100", Files.readString(file));
        assertEquals(List.copyOf(new TreeSet<>(fences)), fences, "every fence is above the one before");
    }

    @Test
    void itWorksOverTls(@TempDir Path dir) throws Exception {
        Path key = dir.resolve("key.pem"), certificate = dir.resolve("cert.pem");
        List<String> words = new ArrayList<>(Arrays.asList("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=sidecar".split(" ")));
        words.addAll(List.of("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key.toString(), "-out", certificate.toString()));
        assumeTrue(new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor() == 0);
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null);
        try (InputStream text = Files.newInputStream(certificate)) {
            trusted.setCertificateEntry("sidecar", CertificateFactory.getInstance("X.509").generateCertificate(text));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        SSLContext tls = SSLContext.getInstance("TLS");
        tls.init(null, trust.getTrustManagers(), null);
        try (Kit.Sidecar secure = new Kit.Sidecar(Kit.nodes().urls, "--tls-cert", certificate.toString(), "--tls-key", key.toString())) {
            assertThrows(Unreachable.class, () -> Client.at(secure.url).lock("secure").acquire());
            Client caller = Client.builder().url(secure.url).tls(tls).build();
            try (Lease hold = caller.lock("secure").ttl(seconds(4)).acquire()) {
                Thread.sleep(5_000);
                hold.ensureHeld();
            }
            assertEquals(Outcome.RELEASED, caller.lock("secure").acquireByToken(LONG).release());
        }
    }

    private interface Call<T> {
        T call() throws Exception;
    }

    private static <T> Future<T> async(Call<T> call) {
        CompletableFuture<T> found = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                found.complete(call.call());
            } catch (Throwable error) {
                found.completeExceptionally(error);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return found;
    }

    private static void crowd(int count, Call<Void> call) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(count);
        try {
            List<Future<Void>> all = new ArrayList<>();
            for (int number = 0; number < count; number++) all.add(threads.submit(call::call));
            for (Future<Void> one : all) one.get();
        } finally {
            threads.shutdownNow();
        }
    }
}
