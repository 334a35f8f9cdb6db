package io.quorlock;

import java.time.Duration;
import java.util.List;
import java.util.Map;

/** What went wrong, and what to do about it. {@link #code} is the sidecar's word for it. */
public class QuorlockException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String code;
    private final int status;
    private final transient Said said;

    QuorlockException(String code, String detail, int status, Said said, Throwable cause) {
        super(detail, cause);
        this.code = code;
        this.status = status;
        this.said = said == null ? new Said(Map.of()) : said;
    }

    /** The exception for a problem that the sidecar answered. */
    static QuorlockException of(int status, Said said) {
        String code = said.text("code") == null ? "unknown" : said.text("code");
        String detail = said.text("detail") == null ? "the sidecar answered " + status : said.text("detail");
        return switch (code) {
            case "held" -> new Held(code, detail, status, said);
            case "names_held" -> new NamesHeld(code, detail, status, said);
            case "no_permit" -> new NoPermit(code, detail, status, said);
            case "wait_over" -> new WaitOver(code, detail, status, said);
            case "slots_differ" -> new SlotsDiffer(code, detail, status, said);
            case "contended" -> new Contended(code, detail, status, said);
            case "lost" -> new LockLost(detail, status, said);
            case "no_quorum" -> new NoQuorum(code, detail, status, said);
            case "too_slow" -> new TooSlow(code, detail, status, said);
            case "too_many_waiters" -> new TooManyWaiters(code, detail, status, said);
            case "too_many_names" -> new TooManyNames(code, detail, status, said);
            case "full" -> new Full(code, detail, status, said);
            case "shutting_down" -> new ShuttingDown(code, detail, status, said);
            case "unauthorized" -> new Unauthorized(code, detail, status, said);
            case "forbidden" -> new Forbidden(code, detail, status, said);
            case "bad_request", "bad_name", "bad_token", "bad_ttl" -> new BadRequest(code, detail, status, said);
            default -> new QuorlockException(code, detail, status, said, null);
        };
    }

    /** The sidecar's word for it, which is stable. */
    public String code() {
        return code;
    }

    /** That of HTTP, 0 if there was no answer. */
    public int status() {
        return status;
    }

    /** All that the sidecar said: maps, lists, strings, numbers, booleans and null. */
    public Map<String, Object> problem() {
        return said.fields();
    }

    Said said() {
        return said;
    }

    /** Other clients have the lock. */
    public static class Held extends QuorlockException {
        private static final long serialVersionUID = 1;

        Held(String code, String detail, int status, Said said) {
            super(code, detail, status, said, null);
        }

        /** Null if the lock is shared, or if nobody knows. */
        public Holder holder() {
            return said().object("holder", Holder::of);
        }

        /** After which it is free unless it is extended; zero if that is not known. */
        public Duration left() {
            return said().millis("remaining_ms");
        }

        /** Those who share the lock, if that keeps us out. */
        public List<Reader> readers() {
            return said().objects("readers", Reader::of);
        }

        /** Those of several names that others have. */
        public List<HeldName> names() {
            return said().objects("held", HeldName::of);
        }
    }

    /** Others have some of the names: {@link #names}. */
    public static final class NamesHeld extends Held {
        private static final long serialVersionUID = 1;

        NamesHeld(String code, String detail, int status, Said said) {
            super(code, detail, status, said);
        }
    }

    /** All slots of the semaphore are taken. */
    public static final class NoPermit extends Held {
        private static final long serialVersionUID = 1;

        NoPermit(String code, String detail, int status, Said said) {
            super(code, detail, status, said);
        }
    }

    /** The lock did not become free in time. */
    public static final class WaitOver extends Held {
        private static final long serialVersionUID = 1;

        WaitOver(String code, String detail, int status, Said said) {
            super(code, detail, status, said);
        }
    }

    /** The semaphore is in use with another number of slots. */
    public static final class SlotsDiffer extends QuorlockException {
        private static final long serialVersionUID = 1;

        SlotsDiffer(String code, String detail, int status, Said said) {
            super(code, detail, status, said, null);
        }

        /** The number of slots that the nodes know. */
        public int recorded() {
            return (int) said().number("recorded");
        }
    }

    /** The lock is not ours any more, or never was. Stop what it protected. */
    public static final class LockLost extends QuorlockException {
        private static final long serialVersionUID = 1;

        LockLost(String detail, int status, Said said) {
            super("lost", detail, status, said, null);
        }
    }

    /** Too few nodes can vote, so no client gets a lock. */
    public static class NoQuorum extends QuorlockException {
        private static final long serialVersionUID = 1;

        NoQuorum(String code, String detail, int status, Said said) {
            super(code, detail, status, said, null);
        }

        /** Why each could not vote. */
        public List<NodeCause> nodes() {
            return said().objects("nodes", NodeCause::of);
        }
    }

    /** The nodes answered, but too late for the lock to be of any use. */
    public static final class TooSlow extends NoQuorum {
        private static final long serialVersionUID = 1;

        TooSlow(String code, String detail, int status, Said said) {
            super(code, detail, status, said);
        }
    }

    /** Several clients want the lock, and none has a majority. Try again: perhaps no client does the work. */
    public static final class Contended extends QuorlockException {
        private static final long serialVersionUID = 1;

        Contended(String code, String detail, int status, Said said) {
            super(code, detail, status, said, null);
        }
    }

    /** Too many calls wait for locks already. Try later. */
    public static final class TooManyWaiters extends QuorlockException {
        private static final long serialVersionUID = 1;

        TooManyWaiters(String code, String detail, int status, Said said) {
            super(code, detail, status, said, null);
        }
    }

    /** Too many new names in a short time. Try later, or use fewer different names. */
    public static final class TooManyNames extends QuorlockException {
        private static final long serialVersionUID = 1;

        TooManyNames(String code, String detail, int status, Said said) {
            super(code, detail, status, said, null);
        }
    }

    /** The sidecar has as many connections or sessions as it may. */
    public static final class Full extends QuorlockException {
        private static final long serialVersionUID = 1;

        Full(String code, String detail, int status, Said said) {
            super(code, detail, status, said, null);
        }
    }

    /** The sidecar ends. Ask another, or again when it is back. */
    public static final class ShuttingDown extends QuorlockException {
        private static final long serialVersionUID = 1;

        ShuttingDown(String code, String detail, int status, Said said) {
            super(code, detail, status, said, null);
        }
    }

    /** A token is needed, or it is wrong. */
    public static final class Unauthorized extends QuorlockException {
        private static final long serialVersionUID = 1;

        Unauthorized(String code, String detail, int status, Said said) {
            super(code, detail, status, said, null);
        }
    }

    /** The token does not allow it. */
    public static final class Forbidden extends QuorlockException {
        private static final long serialVersionUID = 1;

        Forbidden(String code, String detail, int status, Said said) {
            super(code, detail, status, said, null);
        }
    }

    /** The name, the ttl, the token or something else cannot be used: {@link #code} says which. */
    public static final class BadRequest extends QuorlockException {
        private static final long serialVersionUID = 1;

        BadRequest(String code, String detail, int status, Said said) {
            super(code, detail, status, said, null);
        }
    }

    /** The sidecar does not answer, or what answers is none. */
    public static final class Unreachable extends QuorlockException {
        private static final long serialVersionUID = 1;

        Unreachable(String detail, Throwable cause) {
            super("unreachable", detail, 0, null, cause);
        }
    }
}
