//! What keeps the held locks of one locker alive.

use crate::hold::HeldLock;
use crate::hold::clock_jumps::ClockJumpDetector;
use crate::hold::deferred_watchdogs::DeferredWatchdogs;
use quorlock_core::Moment;
use std::sync::Arc;

/// The watchdogs of a locker's held locks, and the task that compares clocks while there are any.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    pub(crate) clock_jumps: ClockJumpDetector,
    pub(crate) watchdogs: DeferredWatchdogs,
}

impl Keeper {
    /// Watches over `hold`, which was `granted` just now, until [`Keeper::unwatch`].
    pub(crate) fn watch(&self, hold: &Arc<HeldLock>, granted: Moment) {
        self.clock_jumps.enter(&hold.nodes.ctx);
        self.watchdogs.insert(hold, granted);
    }

    /// Called when the guard of a lock ends. Its watchdog ends by itself, because the hold is closed.
    pub(crate) fn unwatch(&self) {
        self.clock_jumps.leave();
    }
}
