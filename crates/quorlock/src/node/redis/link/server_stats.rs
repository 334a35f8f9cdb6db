//! What a connection tells about its server beside the answers.

use std::sync::Arc;
use std::time::Duration;

/// What was learnt about the server on the way.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerStats {
    pub(crate) version: Option<Arc<str>>,
    pub(crate) ahead_micros: Option<i64>,
    pub(crate) round_trip: Option<Duration>,
    /// How many replicas follow it.
    pub(crate) replicas: u64,
}
