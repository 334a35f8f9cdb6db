//! Tables as people read them: a header, columns, no lines.

use comfy_table::presets::NOTHING;
use comfy_table::{Row, Table};

/// How many characters of a name, a holder or a reason fit into a table of locks.
const MAX_CHARACTERS: usize = 40;

/// `value` as a cell. A long value ends with an ellipsis, because it would push all other columns aside.
pub(crate) fn truncate(value: String) -> String {
    match value.char_indices().nth(MAX_CHARACTERS) {
        // The ellipsis counts as one character.
        Some(_) => value.chars().take(MAX_CHARACTERS - 1).chain(['\u{2026}']).collect(),
        None => value,
    }
}

/// A table with these columns.
pub(crate) fn with(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(Row::from(header.to_vec()));
    table
}

/// The text of `table`, without a margin and without blanks at the ends of lines.
pub(crate) fn text(table: &Table) -> String {
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    let is_indented = lines.iter().all(|line| line.is_empty() || line.starts_with(' '));
    let lines = lines.iter().map(|line| if is_indented { line.get(1..).unwrap_or_default() } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_value_is_truncated() {
        let fits = "ü".repeat(MAX_CHARACTERS);
        assert_eq!(truncate(fits.clone()), fits);
        let shown = truncate(format!("{fits}x"));
        assert_eq!((shown.chars().count(), shown.ends_with("ü\u{2026}")), (MAX_CHARACTERS, true));
    }
}
