//! Whether a hold excludes all others, or only exclusive ones.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a lock is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// By one client alone: a writer.
    #[default]
    Exclusive,
    /// Together with other shared holders, and with no exclusive one: a reader.
    Shared,
}

impl Mode {
    /// Whether holders in these two modes exclude each other.
    pub fn conflicts_with(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }

    /// A stable word for it.
    pub fn kind(self) -> &'static str {
        match self {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_readers_do_not_conflict() {
        let (exclusive, shared) = (Mode::Exclusive, Mode::Shared);
        assert!(exclusive.conflicts_with(exclusive));
        assert!(exclusive.conflicts_with(shared) && shared.conflicts_with(exclusive));
        assert!(!shared.conflicts_with(shared));
    }
}
