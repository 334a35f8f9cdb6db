//! Tables as people read them: a header, columns, no lines.

use comfy_table::presets::NOTHING;
use comfy_table::{Row, Table};

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
