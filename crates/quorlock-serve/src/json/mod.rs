//! Leases, locks, holders and nodes as JSON.

pub(crate) mod holder;
pub(crate) mod leader;
pub(crate) mod lease;
pub(crate) mod lock;
pub(crate) mod mode;
pub(crate) mod node_vote;
pub(crate) mod reader;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Whole milliseconds.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds from 1970 to now.
pub(crate) fn now_ms() -> u64 {
    unix_ms(SystemTime::now())
}

/// Milliseconds from 1970 to `time`; 0 for an earlier time.
pub(crate) fn unix_ms(time: SystemTime) -> u64 {
    millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}
