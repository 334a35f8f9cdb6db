package io.quorlock;

/**
 * Who leads an election. It may be old when you read it: compare terms, which only rise.
 *
 * @param since Unix time in milliseconds
 */
public record Leader(String value, long term, String owner, long pid, long since) {
    static Leader of(Said said) {
        return new Leader(said.text("value"), said.number("term"), said.text("owner"), said.number("pid"), said.number("since"));
    }
}
