package io.quorlock;

import java.io.IOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/** Several candidates, of whom one leads at a time. */
public final class Election {
    private static final Duration LONGEST_WAIT = Duration.ofHours(1);

    private final Client client;
    private final String name;

    Election(Client client, String name) {
        this.client = client;
        this.name = name;
    }

    /** Waits until we lead, an hour at most, and publishes {@code value}, such as our address. */
    public Leadership campaign(String value) throws InterruptedException {
        return campaign(value, LONGEST_WAIT);
    }

    /** Waits until we lead, at most that long. */
    public Leadership campaign(String value, Duration wait) throws InterruptedException {
        return campaign(value, wait, null, client.owner());
    }

    /** The same with a ttl and an owner; both may be null. */
    public Leadership campaign(String value, Duration wait, Duration ttl, String owner) throws InterruptedException {
        Map<String, Object> wanted = new LinkedHashMap<>();
        wanted.put("value", value);
        wanted.put("wait_ms", LockRequest.millis(wait));
        wanted.put("ttl_ms", ttl == null ? null : LockRequest.millis(ttl));
        wanted.put("owner", owner);
        return client.open(name, "elections", "campaign", wanted, wait, Leadership::new);
    }

    /** Who leads now, if anybody does. */
    public Optional<Leader> leader() {
        return Optional.ofNullable(client.get(Client.path("elections", name, "")).object("leader", Leader::of));
    }

    /** The current leader, and each that follows, by rising terms. Close it. */
    public Leaders observe() {
        return observe(0);
    }

    /** The same from the leader after that term. */
    public Leaders observe(long after) {
        String query = after == 0 ? "" : "?after=" + after;
        try {
            return new Leaders(client, client.stream(Client.path("elections", name, "/observe" + query)));
        } catch (IOException error) {
            throw client.unreachable(error);
        }
    }
}
