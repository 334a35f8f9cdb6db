//! What keeps the held locks of one locker alive.

use crate::context::mutex::Mutex;
use crate::hold::HeldLock;
use crate::hold::clock_jumps::ClockJumpDetector;
use crate::hold::deferred_watchdogs::DeferredWatchdogs;
use crate::quorum::Nodes;
use quorlock_core::{FenceClock, Moment};
use std::sync::Arc;

/// What all held locks of a locker share: the nodes, the watchdogs, and the task that compares clocks while
/// there are any.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) nodes: Nodes,
    /// What the next fence is proposed by.
    pub(crate) fences: Mutex<FenceClock>,
    pub(crate) clock_jumps: ClockJumpDetector,
    pub(crate) watchdogs: DeferredWatchdogs,
}

impl Keeper {
    pub(crate) fn new(nodes: Nodes) -> Self {
        let (fences, clock_jumps, watchdogs) = Default::default();
        Self { nodes, fences, clock_jumps, watchdogs }
    }

    /// Watches over `hold`, which was `granted` just now, until [`Keeper::unwatch`].
    pub(crate) fn watch(&self, hold: &Arc<HeldLock>, granted: Moment) {
        self.clock_jumps.enter(&self.nodes.ctx);
        self.watchdogs.insert(hold, granted);
    }

    /// Called when the guard of a lock ends. Its watchdog ends by itself, because the hold is closed.
    pub(crate) fn unwatch(&self) {
        self.clock_jumps.leave();
    }
}
