//! Text of servers, made safe to show.

use quorlock_core::printable;

/// The longest piece of a server's text that is kept, in bytes.
pub(super) const MAX_TEXT: usize = 200;

/// A server's text, [printable](quorlock_core::text) and bounded. Every text of a server passes through
/// here before it becomes part of an error or a fact.
pub(super) fn server_text(text: impl AsRef<[u8]>) -> String {
    printable(String::from_utf8_lossy(text.as_ref()).trim(), MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_printable_and_bounded() {
        assert_eq!(server_text(b" \x1b[2J\xff\nforged\r\n"), "\u{fffd}[2J\u{fffd}\u{fffd}forged");
        assert_eq!(server_text("é".repeat(500)).len(), MAX_TEXT);
    }
}
