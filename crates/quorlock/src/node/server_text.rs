//! What servers say, as it may be shown.

use quorlock_core::printable;

/// The longest piece of a server's words that is kept, in bytes.
pub(super) const MAX_TEXT: usize = 200;

/// A server's words, [printable](quorlock_core::text) and bounded. Whatever a server says passes through here before it becomes
/// part of an error or a fact.
pub(super) fn server_text(said: impl AsRef<[u8]>) -> String {
    printable(String::from_utf8_lossy(said.as_ref()).trim(), MAX_TEXT)
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
