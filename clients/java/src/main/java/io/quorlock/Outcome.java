package io.quorlock;

/** How a release ended. */
public enum Outcome {
    /** A majority of nodes confirmed it. */
    RELEASED,
    /** Too few nodes answered. The lock is free when its ttl is over, if not before. */
    UNCONFIRMED;

    static Outcome of(Said said) {
        return "released".equals(said.text("outcome")) ? RELEASED : UNCONFIRMED;
    }
}
