//! Tables as people read them: a header, columns, no lines.

use comfy_table::presets::NOTHING;
use comfy_table::{Row, Table};

/// How many characters of a name, a holder or a reason fit into a table of locks.
const MOST_CHARACTERS: usize = 40;

/// `value` for a cell of a table with other rows: a long one ends with an ellipsis, or it would push all other columns aside.
pub(crate) fn cut(value: String) -> String {
    match value.char_indices().nth(MOST_CHARACTERS) {
        // The ellipsis takes the place of one more.
        Some(_) => value.chars().take(MOST_CHARACTERS - 1).chain(['\u{2026}']).collect(),
        None => value,
    }
}

/// A table with these columns.
pub(crate) fn with(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(Row::from(header.to_vec()));
    table
}

/// Its text, without a margin and without blanks at the ends of lines.
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
    fn only_a_long_value_is_cut() {
        let fits = "ü".repeat(MOST_CHARACTERS);
        assert_eq!(cut(fits.clone()), fits);
        let shown = cut(format!("{fits}x"));
        assert_eq!((shown.chars().count(), shown.ends_with("ü\u{2026}")), (MOST_CHARACTERS, true));
    }
}
