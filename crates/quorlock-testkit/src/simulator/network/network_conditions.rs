//! What the network between one client and one server does to bytes.

use std::time::Duration;

/// The state of the network between one client and one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkConditions {
    /// The shortest and the longest delay of a segment.
    pub(crate) delay: (Duration, Duration),
    /// Requests do not pass.
    pub(crate) no_requests: bool,
    /// Replies do not pass.
    pub(crate) no_replies: bool,
    /// Percent of requests that are executed once more, later, over another connection.
    pub(crate) duplicates: u64,
    /// Percent of segments that arrive in several pieces.
    pub(crate) splits: u64,
    /// Percent of replies that arrive twice.
    pub(crate) repeats: u64,
    /// Percent of replies that break off, after which nothing more comes over their connection.
    pub(crate) half_replies: u64,
    /// The client's socket accepts nothing more.
    pub(crate) is_full: bool,
}

impl NetworkConditions {
    pub(crate) const HEALTHY: Self = Self {
        delay: (Duration::from_micros(50), Duration::from_millis(3)),
        no_requests: false,
        no_replies: false,
        duplicates: 0,
        splits: 0,
        repeats: 0,
        half_replies: 0,
        is_full: false,
    };

    /// Whether everything arrives once, and soon.
    pub(crate) fn is_healthy(self) -> bool {
        let passes = !self.no_requests && !self.no_replies && !self.is_full;
        passes && self.repeats == 0 && self.half_replies == 0 && self.delay.1 <= Self::HEALTHY.delay.1
    }
}
