//! One of several clients that share a lock.

use crate::json::unix_ms;
use quorlock::{Holder, StoredLock};
use serde::Serialize;
use utoipa::ToSchema;

/// A client that shares a lock, in its own words.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Reader)]
pub(crate) struct ReaderJson {
    /// `user@host`, or what the caller gave as `owner`.
    owner: String,
    /// The process that acquired it.
    pid: u32,
    /// When it began to acquire it, in milliseconds since 1970, by its own clock.
    since: u64,
    /// Why, if it gave a reason.
    reason: Option<String>,
    /// Its fence.
    fence: u64,
    /// Its token; only for callers of scope `write` who ask for one lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl ReaderJson {
    /// All clients that share the lock, without tokens; none if it is not shared.
    pub(crate) fn all(holder: &Holder) -> Vec<Self> {
        stored(holder).iter().map(Self::from).collect()
    }

    /// The same with tokens.
    pub(crate) fn all_with_tokens(holder: &Holder) -> Vec<Self> {
        let with_token =
            |stored: &StoredLock| Self { token: Some(stored.token.to_string()), ..Self::from(stored) };
        stored(holder).iter().map(with_token).collect()
    }
}

impl From<&StoredLock> for ReaderJson {
    fn from(stored: &StoredLock) -> Self {
        Self {
            owner: stored.owner.who.clone(),
            pid: stored.owner.pid,
            since: unix_ms(stored.owner.since),
            reason: stored.owner.reason.clone(),
            fence: stored.fence.get(),
            token: None,
        }
    }
}

fn stored(holder: &Holder) -> &[StoredLock] {
    match holder {
        Holder::Shared { readers } => readers,
        _ => &[],
    }
}
