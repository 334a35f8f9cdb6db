package io.quorlock;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads and writes the JSON of the sidecar. */
final class Json {
    private static final int DEEPEST = 64;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Maps, lists, strings, longs, doubles, booleans and null. Throws {@link IllegalArgumentException}. */
    static Object read(String text) {
        Json reader = new Json(text);
        Object value = reader.value(0);
        reader.skipSpace();
        if (reader.at != text.length()) throw reader.bad();
        return value;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> readObject(String text) {
        if (read(text) instanceof Map<?, ?> map) return (Map<String, Object>) map;
        throw new IllegalArgumentException("no JSON object");
    }

    /** An object without the entries that are null. */
    static String write(Map<String, Object> fields) {
        StringBuilder to = new StringBuilder("{");
        fields.forEach((key, value) -> {
            if (value == null) return;
            if (to.length() > 1) to.append(',');
            write(to, key);
            to.append(':');
            write(to, value);
        });
        return to.append('}').toString();
    }

    private static void write(StringBuilder to, Object value) {
        if (value instanceof List<?> list) {
            to.append('[');
            for (int at = 0; at < list.size(); at++) {
                if (at > 0) to.append(',');
                write(to, list.get(at));
            }
            to.append(']');
        } else if (value instanceof String text) {
            to.append('"');
            for (char one : text.toCharArray()) {
                if (one == '"' || one == '\\') to.append('\\').append(one);
                else if (one < ' ') to.append(String.format("\\u%04x", (int) one));
                else to.append(one);
            }
            to.append('"');
        } else {
            to.append(value);
        }
    }

    private Object value(int depth) {
        skipSpace();
        if (depth > DEEPEST || at >= text.length()) throw bad();
        return switch (text.charAt(at)) {
            case '{' -> object(depth);
            case '[' -> list(depth);
            case '"' -> string();
            case 't' -> word("true", true);
            case 'f' -> word("false", false);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> found = new LinkedHashMap<>();
        at++;
        if (isNext('}')) return found;
        do {
            skipSpace();
            String key = string();
            if (!isNext(':')) throw bad();
            found.put(key, value(depth + 1));
        } while (isNext(','));
        if (!isNext('}')) throw bad();
        return found;
    }

    private List<Object> list(int depth) {
        List<Object> found = new ArrayList<>();
        at++;
        if (isNext(']')) return found;
        do found.add(value(depth + 1));
        while (isNext(','));
        if (!isNext(']')) throw bad();
        return found;
    }

    private String string() {
        if (at >= text.length() || text.charAt(at) != '"') throw bad();
        StringBuilder found = new StringBuilder();
        while (++at < text.length()) {
            char one = text.charAt(at);
            if (one == '"') {
                at++;
                return found.toString();
            }
            found.append(one == '\\' ? escaped() : one);
        }
        throw bad();
    }

    private char escaped() {
        if (++at >= text.length()) throw bad();
        char one = text.charAt(at);
        switch (one) {
            case 'b': return '\b';
            case 'f': return '\f';
            case 'n': return '\n';
            case 'r': return '\r';
            case 't': return '\t';
            case 'u':
                if (at + 4 >= text.length()) throw bad();
                at += 4;
                return (char) Integer.parseInt(text, at - 3, at + 1, 16);
            default: return one;
        }
    }

    private Object number() {
        int start = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) at++;
        String digits = text.substring(start, at);
        if (digits.isEmpty()) throw bad();
        boolean isWhole = digits.chars().allMatch(one -> one == '-' || Character.isDigit(one));
        return isWhole ? (Object) Long.parseLong(digits) : (Object) Double.parseDouble(digits);
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) throw bad();
        at += word.length();
        return value;
    }

    private boolean isNext(char wanted) {
        skipSpace();
        if (at >= text.length() || text.charAt(at) != wanted) return false;
        at++;
        return true;
    }

    private void skipSpace() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
    }

    private IllegalArgumentException bad() {
        return new IllegalArgumentException("no JSON at character " + at);
    }
}
