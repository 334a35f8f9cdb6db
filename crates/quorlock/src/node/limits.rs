//! Bounds that all kinds of nodes share.

use std::time::Duration;

/// How many more releases than other commands may wait for a node, so that there is room for an undo
/// where there was for its acquire.
pub(crate) const RELEASE_HEADROOM: usize = 4096;

/// The first and the longest delay before a release that failed is tried again; each is twice the one before.
pub(crate) const RELEASE_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
