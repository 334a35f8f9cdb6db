//! What a connection tells about its server beside the answers.

use std::sync::Arc;
use std::time::Duration;

/// What was learnt about the server on the way.
#[derive(Clone, Debug, Default)]
pub(super) struct Learnt {
    pub(super) version: Option<Arc<str>>,
    pub(super) ahead_micros: Option<i64>,
    pub(super) round_trip: Option<Duration>,
    /// How many replicas follow it.
    pub(super) replicas: u64,
}
