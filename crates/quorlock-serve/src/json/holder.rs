//! The holder of a lock, in its own words.

use crate::json::unix_ms;
use quorlock::{Holder, Owner};
use serde::Serialize;
use std::fmt;
use utoipa::ToSchema;

/// Who has a lock, in the holder's own words.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Who)]
pub(crate) struct HolderJson {
    /// `user@host`, or what the caller gave as `owner`; `?` if another kind of client holds it.
    owner: String,
    /// The process that acquired it.
    pid: Option<u32>,
    /// When it began to acquire it, in milliseconds since 1970, by its own clock.
    since: Option<u64>,
    /// Why, if it gave a reason.
    reason: Option<String>,
    /// Whether another kind of client holds it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    foreign: bool,
}

impl HolderJson {
    /// `None` if no client has the lock.
    pub(crate) fn of(holder: &Holder) -> Option<Self> {
        match holder {
            Holder::Owner { owner, .. } => Some(owner.into()),
            Holder::Foreign(_) => Some(Self::foreign()),
            _ => None,
        }
    }

    /// Another kind of client. The value that it stored may be its secret, so it is not repeated.
    pub(crate) fn foreign() -> Self {
        Self { owner: "?".to_owned(), pid: None, since: None, reason: None, foreign: true }
    }
}

impl From<&Owner> for HolderJson {
    fn from(owner: &Owner) -> Self {
        Self {
            owner: owner.who.clone(),
            pid: Some(owner.pid),
            since: Some(unix_ms(owner.since)),
            reason: owner.reason.clone(),
            foreign: false,
        }
    }
}

impl fmt::Display for HolderJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "{} (pid {pid})", self.owner),
            None => f.write_str("another kind of client"),
        }
    }
}
