//! What keeps the held locks of one locker alive.

use crate::hold::clock_jumps::ClockJumpDetector;
use crate::hold::deferred_watchdogs::DeferredWatchdogs;

/// The watchdogs of a locker's held locks, and the task that compares clocks while there are any.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    pub(crate) clock_jumps: ClockJumpDetector,
    pub(crate) watchdogs: DeferredWatchdogs,
}
