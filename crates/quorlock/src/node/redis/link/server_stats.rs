//! What a connection learns about its server, apart from the answers.

use std::sync::Arc;
use std::time::Duration;

/// What is known about the server from its connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerStats {
    pub(crate) version: Option<Arc<str>>,
    pub(crate) ahead_micros: Option<i64>,
    pub(crate) round_trip: Option<Duration>,
    /// How many replicas follow it.
    pub(crate) replicas: u64,
}
