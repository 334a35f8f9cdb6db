package io.quorlock;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What {@link Client#extend} and {@link Client#release} need of a lease, in this or another process.
 *
 * @param names all that the lease covers
 * @param slot that of a permit, or null
 */
public record Handle(String name, String token, List<String> names, Integer slot) {
    public Handle(String name, String token) {
        this(name, token, List.of(name), null);
    }

    /** Another sidecar than the one that gave the lease needs what it covers. */
    Map<String, Object> body() {
        Map<String, Object> body = new LinkedHashMap<>();
        List<String> others = names.stream().filter(one -> !one.equals(name)).toList();
        body.put("token", token);
        body.put("names", others.isEmpty() ? null : others);
        body.put("slot", slot);
        return body;
    }

    /** Names the lock, and not the token. */
    @Override
    public String toString() {
        return "Handle[name=" + name + "]";
    }
}
