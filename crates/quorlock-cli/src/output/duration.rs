//! Durations as people write them: `30s`, `1m30s`, `250ms`.

use quorlock::Rounded;
use serde::{Deserialize, Deserializer, de};
use std::time::Duration;

/// Parses a duration. A bare number is refused: it could mean seconds or milliseconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let is_bare = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_bare {
        return Err(format!("`{text}` has no unit; write `{text}s`, `{text}ms` or `{text}m`"));
    }
    humantime::parse_duration(text)
        .map_err(|_| format!("`{text}` is no duration; write it as 30s, 1m30s or 250ms"))
}

/// A duration for people: `250ms`, `1.2s`, `1m30s`.
pub(crate) fn show(span: Duration) -> String {
    Rounded(span).to_string()
}

/// A duration under 10 ms with two decimals (`0.42ms`), else as [`show`] does (`12ms`).
pub(crate) fn show_fine(span: Duration) -> String {
    match span.as_micros() {
        micros @ 0..10_000 => format!("{}.{:02}ms", micros / 1000, micros % 1000 / 10),
        _ => show(span),
    }
}

/// A duration in a configuration file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurationSetting(pub(crate) Duration);

impl<'de> Deserialize<'de> for DurationSetting {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = DurationSetting;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a duration in quotes, such as \"30s\", \"1m30s\" or \"250ms\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<DurationSetting, E> {
                parse(text).map(DurationSetting).map_err(E::custom)
            }
        }
        from.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        let table = [("30s", 30_000), ("1m30s", 90_000), ("250ms", 250), ("1h", 3_600_000), (" 2s ", 2000)];
        for (text, millis) in table {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["30", "1.5", "0"] {
            assert!(parse(text).unwrap_err().contains("has no unit"), "{text}");
        }
        for text in ["", "s", "-3s", "soon", "3 parsecs"] {
            assert!(parse(text).unwrap_err().contains("is no duration"), "{text}");
        }
    }
}
