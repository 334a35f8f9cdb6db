package io.quorlock;

import java.io.IOException;

/** Server-sent events, one after another. */
final class Events {
    private static final int LONGEST = 1 << 20;

    /** One event. */
    record Event(String kind, Said said) {}

    private final Exchange from;
    private final Runnable heard;

    /** {@code heard} is called for every line, comments too. */
    Events(Exchange from, Runnable heard) {
        this.from = from;
        this.heard = heard;
    }

    /** The next event, or null at the end. */
    Event next() throws IOException {
        String kind = "message";
        StringBuilder data = new StringBuilder();
        while (data.length() < LONGEST) {
            String line = from.line();
            if (line == null) return null;
            heard.run();
            if (line.isEmpty()) {
                if (data.length() > 0) return new Event(kind, said(data.toString()));
                kind = "message";
            } else if (line.startsWith("event:")) {
                kind = line.substring("event:".length()).trim();
            } else if (line.startsWith("data:")) {
                data.append(line.substring("data:".length()).trim()).append('\n');
            }
        }
        throw new IOException("the sidecar sent too long an event");
    }

    private static Said said(String text) throws IOException {
        try {
            return Said.of(text);
        } catch (IllegalArgumentException error) {
            throw new IOException("the sidecar sent no JSON", error);
        }
    }
}
