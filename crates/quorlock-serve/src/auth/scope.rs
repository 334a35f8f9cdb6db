//! What a caller may do.

use serde::Serialize;
use utoipa::ToSchema;

/// What a caller may do; each scope includes the scopes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Nothing.
    None,
    /// Read locks, nodes, events and metrics.
    Read,
    /// Acquire locks, and extend and release its own.
    Lock,
    /// Release the locks of other clients by force.
    Write,
}

impl Scope {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Scope::None => "none",
            Scope::Read => "read",
            Scope::Lock => "lock",
            Scope::Write => "write",
        }
    }
}
