package io.quorlock;

/**
 * What one node said, or why it said nothing.
 *
 * @param cause null if there is nothing to add
 */
public record NodeCause(String node, String said, String cause) {
    static NodeCause of(Said said) {
        return new NodeCause(said.text("node"), said.text("said"), said.text("cause"));
    }
}
