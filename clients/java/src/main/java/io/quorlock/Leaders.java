package io.quorlock;

import java.io.IOException;
import java.util.Iterator;
import java.util.Optional;

/** The leaders of an election, one after another. Used by one thread; any thread may close it. */
public final class Leaders implements Iterator<Optional<Leader>>, AutoCloseable {
    private final Client client;
    private final Exchange stream;
    private final Events events;

    Leaders(Client client, Exchange stream) {
        this.client = client;
        this.stream = stream;
        this.events = new Events(stream, () -> stream.limit(Lease.SILENCE));
        stream.limit(Lease.SILENCE);
    }

    /** True: it ends only with an exception. */
    @Override
    public boolean hasNext() {
        return true;
    }

    /**
     * Waits for the next leader; empty when nobody leads any more. Throws {@link QuorlockException.Unreachable} when the sidecar
     * ends or this is closed: then observe again, after the last term that you saw.
     */
    @Override
    public Optional<Leader> next() {
        try {
            for (Events.Event event = events.next(); event != null; event = events.next()) {
                if (event.kind().equals("leader")) return Optional.of(Leader.of(event.said()));
                if (event.kind().equals("vacant")) return Optional.empty();
            }
        } catch (IOException error) {
            throw client.unreachable(error);
        }
        throw client.unreachable(new IOException("the stream of leaders ended"));
    }

    @Override
    public void close() {
        stream.close();
    }
}
