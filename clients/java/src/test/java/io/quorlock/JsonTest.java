package io.quorlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The reader and writer of JSON. It needs no sidecar. */
class JsonTest {
    @Test
    void jsonIsReadAsItIsWritten() {
        Said said = Said.of(" {\"a\": [1, -2.5, true, null, \"\\u00df\\n\\\"🔒\"], \"b\": {}, \"c\": 1794797504178366} ");
        assertEquals(Arrays.asList(1L, -2.5, true, null, "ß\n\"🔒"), said.fields().get("a"));
        assertEquals(1794797504178366L, said.number("c"));
        for (String bad : List.of("", "{", "[1,", "{\"a\" 1}", "nul", "{} x", "\"\\u12", "[".repeat(1000), "--", "[1]")) {
            assertThrows(IllegalArgumentException.class, () -> Json.readObject(bad), bad);
        }
    }

    @Test
    void whatIsNullIsLeftOut() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("a", "tab\t\"quoted\"");
        fields.put("b", null);
        fields.put("c", List.of("x", "y"));
        fields.put("d", 5L);
        assertEquals("{\"a\":\"tab\\u0009\\\"quoted\\\"\",\"c\":[\"x\",\"y\"],\"d\":5}", Json.write(fields));
    }
}
