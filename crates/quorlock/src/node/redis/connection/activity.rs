//! When one server was last heard, asked and told, on one connection.

use quorlock_core::Moment;
use std::time::Duration;

/// When the server was last heard, and how long its answers take.
pub(crate) struct Activity {
    pub(crate) heard: Moment,
    /// When it was last asked what it is.
    pub(crate) on_server_info: Moment,
    /// When the server was last told that somebody waits.
    pub(crate) waited: Moment,
    /// Which answer is timed, by its number, and when its command was handed over.
    pub(crate) probe: Option<(u64, Moment)>,
    pub(crate) round_trip: Option<Duration>,
}

impl Activity {
    pub(crate) fn new(now: Moment) -> Self {
        Self { heard: now, on_server_info: now, waited: now, probe: None, round_trip: None }
    }

    /// So many commands were answered by now.
    pub(crate) fn answered(&mut self, count: u64, now: Moment) {
        self.heard = now;
        if let Some((_, sent)) = self.probe.take_if(|(number, _)| *number <= count) {
            self.round_trip = Some(now.since(sent));
        }
    }
}
