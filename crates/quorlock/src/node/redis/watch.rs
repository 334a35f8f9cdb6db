//! When one server was last heard, asked and told, on one connection.

use quorlock_core::Moment;
use std::time::Duration;

/// When the server was last heard, and how long its answers take.
pub(super) struct Watch {
    pub(super) heard: Moment,
    /// When it was last asked what it is.
    pub(super) surveyed: Moment,
    /// When the server was last told that somebody waits.
    pub(super) waited: Moment,
    /// Which answer is timed, by its number, and when its command was handed over.
    pub(super) probe: Option<(u64, Moment)>,
    pub(super) round_trip: Option<Duration>,
}

impl Watch {
    pub(super) fn new(now: Moment) -> Self {
        Self { heard: now, surveyed: now, waited: now, probe: None, round_trip: None }
    }

    /// So many commands were answered by now.
    pub(super) fn answered(&mut self, count: u64, now: Moment) {
        self.heard = now;
        if let Some((_, sent)) = self.probe.take_if(|(number, _)| *number <= count) {
            self.round_trip = Some(now.since(sent));
        }
    }
}
