//! What the network between one client and one server does to messages.

use std::time::Duration;

/// The state of the network between one client and one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkConditions {
    /// The shortest and the longest delay of a message.
    pub(crate) delay: (Duration, Duration),
    /// Requests are lost.
    pub(crate) no_requests: bool,
    /// Replies are lost.
    pub(crate) no_replies: bool,
    /// Percent of requests that are executed once more, later.
    pub(crate) duplicates: u64,
}

impl NetworkConditions {
    pub(crate) const HEALTHY: Self = Self {
        delay: (Duration::from_micros(50), Duration::from_millis(3)),
        no_requests: false,
        no_replies: false,
        duplicates: 0,
    };

    /// Whether every message arrives, and soon.
    pub(crate) fn is_healthy(self) -> bool {
        !self.no_requests && !self.no_replies && self.delay.1 <= Self::HEALTHY.delay.1
    }
}
