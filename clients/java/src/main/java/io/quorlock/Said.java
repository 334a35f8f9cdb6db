package io.quorlock;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** An object that the sidecar said, by its fields. What is missing or of another kind is null, 0 or empty. */
record Said(Map<String, Object> fields) {
    static Said of(String text) {
        return new Said(Json.readObject(text));
    }

    String text(String key) {
        return fields.get(key) instanceof String found ? found : null;
    }

    long number(String key) {
        return fields.get(key) instanceof Number found ? found.longValue() : 0;
    }

    Integer smallOrNull(String key) {
        return fields.get(key) instanceof Number found ? found.intValue() : null;
    }

    boolean flag(String key) {
        return Boolean.TRUE.equals(fields.get(key));
    }

    Duration millis(String key) {
        return Duration.ofMillis(Math.max(0, number(key)));
    }

    @SuppressWarnings("unchecked")
    <T> T object(String key, Function<Said, T> read) {
        return fields.get(key) instanceof Map<?, ?> found ? read.apply(new Said((Map<String, Object>) found)) : null;
    }

    @SuppressWarnings("unchecked")
    <T> List<T> objects(String key, Function<Said, T> read) {
        List<T> all = new ArrayList<>();
        if (fields.get(key) instanceof List<?> found) {
            for (Object one : found) {
                if (one instanceof Map<?, ?> map) all.add(read.apply(new Said((Map<String, Object>) map)));
            }
        }
        return List.copyOf(all);
    }

    List<String> texts(String key) {
        List<String> all = new ArrayList<>();
        if (fields.get(key) instanceof List<?> found) {
            for (Object one : found) {
                if (one instanceof String text) all.add(text);
            }
        }
        return List.copyOf(all);
    }
}
