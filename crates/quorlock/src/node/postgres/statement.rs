//! The text of a statement. Values are written into it, because a pooler may know no prepared statements, and
//! because the server answers a simple statement only after its commit.

use std::fmt::Write;
use std::time::Duration;

/// A call of one of our functions.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    text: String,
    is_first: bool,
}

impl Statement {
    /// Begins the call of `function` in the quoted schema `schema`. Its result is one number.
    pub(crate) fn call(schema: &str, function: &str) -> Self {
        Self { text: format!("{schema}.{function}("), is_first: true }
    }

    pub(crate) fn text(mut self, value: &str) -> Self {
        self.comma();
        self.text.push_str(&literal(value));
        self
    }

    pub(crate) fn number(mut self, value: impl Into<i128>) -> Self {
        self.comma();
        let _ = write!(self.text, "{}", value.into());
        self
    }

    pub(crate) fn flag(mut self, value: bool) -> Self {
        self.comma();
        self.text.push_str(if value { "true" } else { "false" });
        self
    }

    /// The statement that returns `echo` and the result, so that an answer to another statement is noticed.
    pub(crate) fn select(self, echo: u64) -> String {
        format!("SELECT {echo}, {})", self.text)
    }

    /// The same for a function that returns `columns`.
    pub(crate) fn select_columns(self, echo: u64, columns: &str) -> String {
        format!("SELECT {echo}, {columns} FROM {})", self.text)
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    fn comma(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.text.push(',');
        }
    }
}

/// The statement that makes all `calls`, one after another, and returns `echo`, a setting, and their results.
/// Each call waits up to `row_timeout` for a row.
pub(crate) fn select_all(echo: u64, row_timeout: Duration, calls: impl Iterator<Item = Statement>) -> String {
    let row_timeout = row_timeout.as_millis();
    let mut text = format!("SELECT {echo}, pg_catalog.set_config('lock_timeout', '{row_timeout}', true)");
    for call in calls {
        text.push_str(", ");
        text.push_str(&call.text);
        text.push(')');
    }
    text
}

/// `value` as SQL writes it, whatever `standard_conforming_strings` is set to.
pub(crate) fn literal(value: &str) -> String {
    // A text in a database cannot hold the zero character; no name has one.
    let value = value.replace('\\', "\\\\").replace('\'', "''").replace('\0', "");
    format!("E'{value}'")
}

/// `name` as SQL writes it.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\"").replace('\0', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_leave_their_quotes() {
        assert_eq!(literal(r"it's \'; DROP"), r"E'it''s \\''; DROP'");
        assert_eq!(identifier(r#"a"b"#), r#""a""b""#);
        let statement = Statement::call("\"q\"", "f").text("a'").number(-5).flag(true).select(7);
        assert_eq!(statement, "SELECT 7, \"q\".f(E'a''',-5,true)");
    }
}
