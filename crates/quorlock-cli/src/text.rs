//! Text that others wrote, made harmless.

/// `text` that cannot play tricks on a terminal: nodes store what any client wrote there.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
