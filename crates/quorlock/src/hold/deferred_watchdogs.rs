//! Delays the start of watchdogs: most holds end before they need one.

use crate::context::RecheckReceiver;
use crate::context::mutex::Mutex;
use crate::hold::HeldLock;
use crate::hold::watchdog::{StartInstants, watch_over};
use quorlock_core::{LossReason, Moment};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;
use tokio::runtime::{Handle, Id};
use tokio::time::sleep;

/// How long a watchdog is deferred at most. A hold whose first check is due sooner than twice this gets
/// its watchdog at once.
const DEFER: Duration = Duration::from_millis(50);

/// The new holds of a locker: each gets a watchdog within [`DEFER`], unless its guard ends before.
///
/// A watchdog is a task with timers, and a lock that is held for a millisecond would cost as much for it
/// as for the votes. Holds stay with the runtime in which they were acquired: another one may be idle, or
/// end.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeferredWatchdogs(Arc<Mutex<Vec<RuntimeSlot>>>);

/// The new holds of one runtime, as long as a task there starts their watchdogs.
#[derive(Debug)]
struct RuntimeSlot {
    runtime: Id,
    deferred: Vec<Deferred>,
    /// The entry that the next insert checks first.
    next: usize,
}

impl RuntimeSlot {
    /// Amortised sweep: each insert removes up to two entries that have ended, so that their memory is
    /// reused while warm, instead of being left cold until the starter task runs.
    fn insert(&mut self, newcomer: Deferred) {
        for _ in 0..2 {
            if self.next >= self.deferred.len() {
                self.next = 0;
            }
            match self.deferred.get(self.next) {
                Some(deferred) if deferred.hold.strong_count() == 0 => {
                    drop(self.deferred.swap_remove(self.next))
                }
                _ => self.next += 1,
            }
        }
        self.deferred.push(newcomer);
    }
}

#[derive(Debug)]
struct Deferred {
    hold: Weak<HeldLock>,
    since: StartInstants,
}

impl Deferred {
    /// Starts a watchdog in the current runtime, unless the guard has ended.
    fn start(self, recheck: RecheckReceiver, recheck_due: bool) {
        if let Some(hold) = self.hold.upgrade().filter(|hold| !hold.closed().is_fired()) {
            watch_over(hold, self.since, recheck, recheck_due);
        }
    }
}

impl DeferredWatchdogs {
    /// Makes sure that `hold`, which was granted just now, is watched over.
    pub(crate) fn insert(&self, hold: &Arc<HeldLock>, granted: Moment) {
        // The clocks are read here, so that a watchdog notices a sleep of the machine before its first
        // step.
        let since = StartInstants::at(granted);
        if since.first_check(hold) < 2 * DEFER {
            return watch_over(hold.clone(), since, hold.nodes().ctx.recheck.listen(), false);
        }
        let deferred = Deferred { hold: Arc::downgrade(hold), since };
        let runtime = Handle::current().id();
        let mut slots = self.slots();
        match slots.iter_mut().find(|slot| slot.runtime == runtime) {
            Some(slot) => slot.insert(deferred),
            None => {
                // Subscribed before the slot has an entry, so that no recheck is raised without a
                // receiver.
                let recheck = hold.nodes().ctx.recheck.listen();
                slots.push(RuntimeSlot { runtime, deferred: vec![deferred], next: 0 });
                drop(slots);
                let starter = Starter { watchdogs: self.clone(), runtime, is_over: false };
                tokio::spawn(starter.run(recheck));
            }
        }
    }

    fn slots(&self) -> MutexGuard<'_, Vec<RuntimeSlot>> {
        self.0.lock()
    }
}

/// The one task that starts the deferred watchdogs of a runtime.
struct Starter {
    watchdogs: DeferredWatchdogs,
    runtime: Id,
    /// Whether the slot was removed.
    is_over: bool,
}

impl Starter {
    /// Starts watchdogs until there are none left to start.
    async fn run(mut self, mut recheck: RecheckReceiver) {
        loop {
            let recheck_due = tokio::select! {
                biased;
                () = recheck.changed() => true,
                () = sleep(DEFER) => false,
            };
            let Some(deferred) = self.next() else { return };
            // Each watchdog gets a clone of this receiver, so it sees every recheck from here on and
            // misses none.
            deferred.into_iter().for_each(|deferred| deferred.start(recheck.clone(), recheck_due));
        }
    }

    /// All entries since the last call that still exist; `None` removes the slot.
    fn next(&mut self) -> Option<Vec<Deferred>> {
        let mut slots = self.watchdogs.slots();
        let at = slots.iter().position(|slot| slot.runtime == self.runtime)?;
        if slots[at].deferred.is_empty() {
            slots.swap_remove(at);
            self.is_over = true;
            return None;
        }
        Some(std::mem::take(&mut slots[at].deferred))
    }
}

impl Drop for Starter {
    /// Dropped before its end, its runtime is shutting down: nothing will extend these locks any more, so
    /// announce the loss.
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut slots = self.watchdogs.slots();
        let at = slots.iter().position(|slot| slot.runtime == self.runtime);
        let deferred = at.map(|at| slots.swap_remove(at).deferred).unwrap_or_default();
        drop(slots);
        let holds = deferred.into_iter().filter_map(|deferred| deferred.hold.upgrade());
        for hold in holds.filter(|hold| !hold.closed().is_fired()) {
            hold.lose(LossReason::Unwatched);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Locker;

    #[tokio::test(start_paused = true)]
    async fn holds_that_ended_do_not_pile_up_and_those_that_last_stay() {
        let locker = Locker::builder().nodes(["memory:"]).build().unwrap();
        let mut lasting = Vec::new();
        for number in 0..10 {
            lasting.push(locker.named(format!("lasting{number}")).unwrap().acquire().await.unwrap());
        }
        let watchdogs = &locker.keeper().watchdogs;
        let short = locker.named("short").unwrap();
        for _ in 0..200 {
            let _ = short.acquire().await.unwrap().release().await;
            // The starter task does not run: the paused clock does not advance while there is something
            // to do.
            let slots = watchdogs.slots();
            let lives = slots[0].deferred.iter().filter(|deferred| deferred.hold.strong_count() > 0).count();
            assert_eq!(lives, 10);
            assert!(slots[0].deferred.len() <= 24, "{} are there", slots[0].deferred.len());
        }
    }
}
