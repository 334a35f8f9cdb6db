//! When one connection last sent and received what the driver watches.

use quorlock_core::Moment;
use std::time::Duration;

/// When the server last answered, and how long its answers take.
pub(crate) struct Activity {
    pub(crate) last_reply: Moment,
    /// When `INFO` was last requested.
    pub(crate) info_requested: Moment,
    /// When the server was last informed that this process has waiters.
    pub(crate) announced: Moment,
    /// Which answer is timed, by its number, and when its command was handed over.
    pub(crate) probe: Option<(u64, Moment)>,
    pub(crate) round_trip: Option<Duration>,
}

impl Activity {
    pub(crate) fn new(now: Moment) -> Self {
        Self { last_reply: now, info_requested: now, announced: now, probe: None, round_trip: None }
    }

    /// Records that `count` commands were answered by now.
    pub(crate) fn answered(&mut self, count: u64, now: Moment) {
        self.last_reply = now;
        if let Some((_, sent)) = self.probe.take_if(|(number, _)| *number <= count) {
            self.round_trip = Some(now.since(sent));
        }
    }
}
