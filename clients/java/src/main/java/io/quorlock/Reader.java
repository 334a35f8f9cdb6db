package io.quorlock;

/**
 * One of those who share a lock.
 *
 * @param since Unix time in milliseconds
 * @param reason why, or null
 */
public record Reader(String owner, long pid, long since, String reason, long fence) {
    static Reader of(Said said) {
        return new Reader(said.text("owner"), said.number("pid"), said.number("since"), said.text("reason"), said.number("fence"));
    }
}
