package io.quorlock;

import java.time.Duration;
import java.util.List;

/**
 * A name that others hold.
 *
 * @param holder null if it is shared
 * @param left zero if it is not known
 */
public record HeldName(String name, Holder holder, List<Reader> readers, Duration left) {
    static HeldName of(Said said) {
        Holder holder = said.object("holder", Holder::of);
        return new HeldName(said.text("name"), holder, said.objects("readers", Reader::of), said.millis("remaining_ms"));
    }
}
