package io.quorlock;

/**
 * Who holds a lock.
 *
 * @param since Unix time in milliseconds, 0 if it is not known
 * @param reason why, or null
 * @param foreign another program than quorlock took it
 */
public record Holder(String owner, long pid, long since, String reason, boolean foreign) {
    static Holder of(Said said) {
        return new Holder(said.text("owner"), said.number("pid"), said.number("since"), said.text("reason"), said.flag("foreign"));
    }
}
