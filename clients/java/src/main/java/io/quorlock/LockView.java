package io.quorlock;

import java.time.Duration;
import java.util.List;

/**
 * What the nodes say of one lock.
 *
 * @param mode "exclusive", "shared", or null if it is free
 * @param holder null if it is free or shared
 * @param fence 0 if nobody knows it
 * @param remaining after which it is free unless it is extended
 * @param here this sidecar lent it
 * @param token only for callers of scope {@code write}, and only from {@link Client#status}; else null
 * @param semaphore of which it is a slot, or null
 */
public record LockView(
        String name, boolean held, String mode, Holder holder, List<Reader> readers, long fence, Duration remaining,
        int votes, int nodes, int quorum, int waiters, boolean here, String token, String semaphore, Integer slot) {
    static LockView of(Said said) {
        return new LockView(
                said.text("name"), said.flag("held"), said.text("mode"), said.object("holder", Holder::of),
                said.objects("readers", Reader::of), said.number("fence"), said.millis("remaining_ms"),
                (int) said.number("votes"), (int) said.number("nodes"), (int) said.number("quorum"),
                (int) said.number("waiters"), said.flag("here"), said.text("token"), said.text("semaphore"),
                said.smallOrNull("slot"));
    }

    /** Names the lock, and not the token. */
    @Override
    public String toString() {
        return "LockView[name=" + name + ", held=" + held + ", mode=" + mode + ", holder=" + holder + ", fence=" + fence + "]";
    }
}
