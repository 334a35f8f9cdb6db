//! Text from other programs, made safe to show: no character in it controls a terminal, hides text or
//! changes its direction.

/// Replaces every character that is not shown, and bytes that are no UTF-8.
pub const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// `text` as it may be shown, at most `most` bytes of it. Every character that is [not shown](is_shown)
/// becomes [`REPLACEMENT`].
///
/// Nodes store what any client wrote there, and servers answer what they like. Values are cleaned once,
/// where they enter the program, so that no place that prints, logs or serves them has to do it. What is
/// clean and short enough stays as it is.
pub fn printable(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(most));
    for c in text.chars().map(|c| if is_shown(c) { c } else { REPLACEMENT }) {
        if shown.len() + c.len_utf8() > most {
            break;
        }
        shown.push(c);
    }
    shown
}

/// Whether `c` is shown as it is. These are not:
///
/// - control characters (C0, DEL and C1) and the line and paragraph separators: they control terminals
///   and begin lines;
/// - characters that change the direction of text: `abc` could be shown as `cba`;
/// - other invisible formatting characters, among them tags and annotations: they hide text.
///
/// The zero width joiner and non-joiner stay. Persian, Indic scripts and emoji need them, and they
/// neither hide nor move other characters.
pub fn is_shown(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            // Soft hyphen, Arabic letter mark, Mongolian vowel separator.
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            // Zero width space, direction marks.
            | '\u{200b}' | '\u{200e}' | '\u{200f}'
            // Line and paragraph separator, embeddings and overrides of direction.
            | '\u{2028}'..='\u{202e}'
            // Word joiner, invisible operators, isolates of direction, outdated formatting.
            | '\u{2060}'..='\u{206f}'
            // Byte order mark, interlinear annotations, tags.
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_controls_a_terminal_or_changes_direction_is_replaced() {
        for (hostile, shown) in [
            ("a\u{1b}[31mb", "a\u{fffd}[31mb"),
            ("a\r\nforged", "a\u{fffd}\u{fffd}forged"),
            ("a\u{9b}2J\u{7f}\0", "a\u{fffd}2J\u{fffd}\u{fffd}"),
            ("a\u{2028}b\u{2029}c\u{85}", "a\u{fffd}b\u{fffd}c\u{fffd}"),
            ("\u{202e}abc\u{2066}\u{61c}\u{200f}", "\u{fffd}abc\u{fffd}\u{fffd}\u{fffd}"),
            ("\u{feff}a\u{e0041}\u{fff9}\u{200b}", "\u{fffd}a\u{fffd}\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(printable(hostile, 100), shown, "{hostile:?}");
        }
    }

    #[test]
    fn text_of_any_script_stays_as_it_is() {
        for text in ["", "a b", "Grüße", "잠금", "שלום", "نام\u{200c}ها", "क्\u{200d}ष", "👩\u{200d}🚒", "�"]
        {
            assert_eq!(printable(text, 100), text);
        }
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(printable("abc", 3), "abc");
        assert_eq!(printable("abc", 2), "ab");
        assert_eq!(printable("aéé", 4), "aé");
        assert_eq!(
            printable("\n\n", 5),
            "\u{fffd}",
            "what is replaced counts with the bytes of its replacement"
        );
    }

    proptest! {
        #[test]
        fn printable_text_is_shown_short_and_stays_as_it_is(text in any::<String>(), most in 0_usize..40) {
            let shown = printable(&text, most);
            prop_assert!(shown.len() <= most && shown.chars().all(is_shown));
            prop_assert_eq!(printable(&shown, most), shown);
        }
    }
}
