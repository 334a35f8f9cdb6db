//! Text that others wrote, made harmless.

/// `text` that cannot play tricks on a terminal: nodes store what any client wrote there.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_invisible(c) { ' ' } else { c }).collect()
}

/// Whether `c` shows nothing and changes how what follows is shown: another direction, or no width.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_plays_tricks_on_a_terminal_is_a_space() {
        assert_eq!(plain("a\u{1b}[31mb\nc\u{202e}d\u{200b}e é 잠"), "a [31mb c d e é 잠");
    }
}
