package io.quorlock;

import io.quorlock.QuorlockException.Unreachable;
import java.io.IOException;
import java.net.URLEncoder;
import java.nio.channels.ClosedByInterruptException;
import java.nio.charset.StandardCharsets;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import javax.net.ssl.SSLContext;

/** Where the sidecar is, and who asks. Cheap, has nothing to close, and is safe to share between threads. */
public final class Client {
    private static final String DEFAULT_URL = "http://127.0.0.1:7420";

    private final Address address;
    private final String token;
    private final String owner;
    private final long timeout;
    private final LongSupplier clock;

    private Client(Builder from) {
        address = Address.parse(from.url, from.tls);
        token = from.token;
        owner = from.owner;
        timeout = from.timeout.toMillis();
        clock = from.clock;
        if (token != null && token.chars().anyMatch(one -> one <= ' ' || one > '~')) {
            throw new IllegalArgumentException("the token has characters that no token has");
        }
    }

    /** The sidecar at "http://127.0.0.1:7420" or "unix:/run/quorlock.sock". */
    public static Client at(String url) {
        return builder().url(url).build();
    }

    /** The sidecar that QUORLOCK_SIDECAR names, with QUORLOCK_SIDECAR_TOKEN; else that at http://127.0.0.1:7420. */
    public static Client fromEnvironment() {
        return builder().build();
    }

    /** Starts with what the environment says. */
    public static Builder builder() {
        return new Builder();
    }

    /** Settings of a client. */
    public static final class Builder {
        private String url = orElse(System.getenv("QUORLOCK_SIDECAR"), DEFAULT_URL);
        private String token = orElse(System.getenv("QUORLOCK_SIDECAR_TOKEN"), null);
        private String owner;
        private Duration timeout = Duration.ofSeconds(10);
        private SSLContext tls;
        private LongSupplier clock = BootClock.SYSTEM;

        private Builder() {}

        private static String orElse(String found, String other) {
            return found == null || found.isEmpty() ? other : found;
        }

        public Builder url(String url) {
            this.url = url;
            return this;
        }

        /** A secret of the sidecar's token file. */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /** Who we are, for people who ask who holds a lock. */
        public Builder owner(String owner) {
            this.owner = owner;
            return this;
        }

        /** How long the sidecar may take beyond what it was asked to wait: 10 s. */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /** For https, if the certificates of this machine are not enough, or the sidecar wants one of ours. */
        public Builder tls(SSLContext tls) {
            this.tls = tls;
            return this;
        }

        Builder clock(LongSupplier clock) {
            this.clock = clock;
            return this;
        }

        /** Does not connect. Throws {@link IllegalArgumentException} if the address names no sidecar. */
        public Client build() {
            if (tls == null && url.startsWith("https:")) {
                try {
                    tls = SSLContext.getDefault();
                } catch (NoSuchAlgorithmException error) {
                    throw new IllegalArgumentException("this machine has no TLS", error);
                }
            }
            return new Client(this);
        }
    }

    /** A lock. */
    public LockRequest lock(String name) {
        return LockRequest.of(this, owner, name, List.of(), null);
    }

    /** Several locks together, at most 16, with one fence: all or none. Their order does not matter. */
    public LockRequest locks(String first, String... others) {
        return LockRequest.of(this, owner, first, List.of(others), null);
    }

    /** A permit, of which there are {@code slots}. All clients must give the same number. */
    public LockRequest semaphore(String name, int slots) {
        return LockRequest.of(this, owner, name, List.of(), slots);
    }

    /** The election of that name. */
    public Election election(String name) {
        return new Election(this, name);
    }

    /**
     * Keeps a lease for one ttl from now, also one that another process took; the ttl may be null for that of the last time.
     * Throws {@link QuorlockException.LockLost} if the lock is not held under that token.
     */
    public Lease extend(Handle handle, Duration ttl) {
        Granted granted = extendSaid(handle, ttl);
        return new Lease(this, handle.name(), granted.said(), granted.asked(), null);
    }

    /** Lets go of a lease, also of one that another process took. Throws {@link QuorlockException.LockLost} if it was gone. */
    public Outcome release(Handle handle) {
        return release(handle, "release", timeout);
    }

    /** Takes the lock away from who holds it under that token, which {@link #status} shows to scope {@code write}. */
    public Outcome forceRelease(Handle handle) {
        return release(handle, "force-release", timeout);
    }

    /** Who holds the lock, also if nobody does. */
    public LockView status(String name) {
        return LockView.of(get(path("locks", name, "")));
    }

    /** The locks that are held, by any client. */
    public List<LockView> list() {
        return get("/v1/locks").objects("locks", LockView::of);
    }

    /** Nodes, locks and warnings, as the sidecar's dashboard shows them. */
    public Map<String, Object> overview() {
        return get("/v1/overview").fields();
    }

    /** Names the sidecar, and not the token. */
    @Override
    public String toString() {
        return "Client[" + address.text() + "]";
    }

    /** What the sidecar granted, and when it was asked. */
    record Granted(Said said, long asked) {}

    /** Makes a lease out of a stream. */
    interface Begin<T> {
        T lease(Client client, String name, Said said, long asked, Exchange stream);
    }

    String owner() {
        return owner;
    }

    long now() {
        return clock.getAsLong();
    }

    Said get(String path) {
        return ask("GET", path, null, timeout).said();
    }

    Granted extendSaid(Handle handle, Duration ttl) {
        Map<String, Object> body = handle.body();
        body.put("ttl_ms", ttl == null ? null : LockRequest.millis(ttl));
        return ask("POST", path("locks", handle.name(), "/extend"), body, timeout);
    }

    Outcome release(Handle handle, String verb, long timeout) {
        return Outcome.of(ask("POST", path("locks", handle.name(), "/" + verb), handle.body(), timeout).said());
    }

    Lease acquire(String name, Map<String, Object> wanted, Duration wait) throws InterruptedException {
        try {
            Granted granted = exchange("POST", path("locks", name, "/acquire"), wanted, timeout + wait.toMillis());
            return new Lease(this, name, granted.said(), granted.asked(), null);
        } catch (IOException error) {
            throw interruptedOr(error);
        }
    }

    /** Opens a stream that holds a lock or leads, and waits for its first event. */
    <T extends Lease> T open(String name, String place, String verb, Map<String, Object> wanted, Duration wait, Begin<T> begin)
            throws InterruptedException {
        Exchange stream = null;
        try {
            stream = head(path(place, name, "/" + verb + query(wanted)), timeout + wait.toMillis());
            Lease[] held = new Lease[1];
            Events events = new Events(stream, () -> {
                if (held[0] != null) held[0].heard();
            });
            Events.Event first = events.next();
            if (first == null || !(first.kind().equals("held") || first.kind().equals("leading"))) {
                throw new IOException("the stream ended before it held `" + name + "`");
            }
            stream.limit(0);
            T lease = begin.lease(this, name, first.said(), stream.asked, stream);
            held[0] = lease;
            lease.follow(events);
            return lease;
        } catch (IOException error) {
            if (stream != null) stream.close();
            throw interruptedOr(error);
        }
    }

    Exchange stream(String path) throws IOException {
        return head(path, timeout);
    }

    Unreachable unreachable(Exception cause) {
        return new Unreachable("the sidecar at " + address.text() + " does not answer: " + cause, cause);
    }

    private RuntimeException interruptedOr(IOException error) throws InterruptedException {
        if (error instanceof ClosedByInterruptException) {
            Thread.interrupted();
            throw new InterruptedException("interrupted while it waited for the sidecar");
        }
        return unreachable(error);
    }

    private Granted ask(String method, String path, Map<String, Object> body, long timeout) {
        try {
            return exchange(method, path, body, timeout);
        } catch (IOException error) {
            throw unreachable(error);
        }
    }

    private Granted exchange(String method, String path, Map<String, Object> body, long timeout) throws IOException {
        String content = body == null ? null : Json.write(body);
        try (Exchange sent = Exchange.send(address, clock, method, path, token, content, timeout)) {
            Said said = said(sent);
            if (sent.status != 200) throw QuorlockException.of(sent.status, said);
            return new Granted(said, sent.asked);
        }
    }

    /** The head of a stream. */
    private Exchange head(String path, long timeout) throws IOException {
        Exchange sent = Exchange.send(address, clock, "GET", path, token, null, timeout);
        if (sent.status == 200) return sent;
        try (sent) {
            throw QuorlockException.of(sent.status, said(sent));
        }
    }

    private static Said said(Exchange sent) throws IOException {
        try {
            return Said.of(sent.text());
        } catch (IllegalArgumentException error) {
            throw new IOException("the sidecar answered " + sent.status + " without JSON", error);
        }
    }

    static String path(String place, String name, String rest) {
        // A name of dots would be taken for a step in the path.
        boolean isDots = name.equals(".") || name.equals("..");
        return "/v1/" + place + "/" + (isDots ? name.replace(".", "%2E") : encode(name)) + rest;
    }

    private static String query(Map<String, Object> fields) {
        StringBuilder query = new StringBuilder();
        fields.forEach((key, value) -> {
            List<?> values = value instanceof List<?> list ? list : value == null ? List.of() : List.of(value);
            for (Object one : values) {
                query.append(query.length() == 0 ? '?' : '&').append(key).append('=').append(encode(one.toString()));
            }
        });
        return query.toString();
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }
}
