//! Where holds spend their first moments: most end before they need a watchdog of their own.

use crate::hold::Hold;
use crate::hold::watchdog::{Since, watch_over};
use quorlock_core::{Loss, Moment};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::time::sleep;

/// How long a hold stays here at most. One that must be looked at sooner than twice this gets its watchdog at once.
const STAY: Duration = Duration::from_millis(50);

/// The young holds of a locker: each gets a watchdog within [`STAY`], unless its guard lets go before.
///
/// A watchdog is a task with timers, and a lock that is held for a millisecond would cost as much for it as for the
/// votes. Holds stay with the runtime in which they were acquired: another one may be idle, or end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nursery(Arc<Mutex<Vec<Ward>>>);

/// The young holds of one runtime, as long as a task there looks after them.
#[derive(Debug)]
struct Ward {
    runtime: Id,
    young: Vec<Young>,
    /// Whom the next newcomer looks at.
    next: usize,
}

impl Ward {
    /// Takes a newcomer in, who first looks at two others and shows those out that ended: their memory is used again at once,
    /// instead of being left cold until the nurse looks.
    fn take_in(&mut self, newcomer: Young) {
        for _ in 0..2 {
            if self.next >= self.young.len() {
                self.next = 0;
            }
            match self.young.get(self.next) {
                Some(young) if young.hold.strong_count() == 0 => drop(self.young.swap_remove(self.next)),
                _ => self.next += 1,
            }
        }
        self.young.push(newcomer);
    }
}

#[derive(Debug)]
struct Young {
    hold: Weak<Hold>,
    since: Since,
}

impl Young {
    /// Gives the hold, if its guard has it still, a watchdog in the current runtime.
    fn grow_up(self, alarm: watch::Receiver<u64>, alarmed: bool) {
        if let Some(hold) = self.hold.upgrade().filter(|hold| !hold.closed().is_fired()) {
            watch_over(hold, self.since, alarm, alarmed);
        }
    }
}

impl Nursery {
    /// Sees to it that `hold`, which was granted just now, is watched over.
    pub(crate) fn take(&self, hold: &Arc<Hold>, granted: Moment) {
        // The clocks are read here: a sleep before a watchdog's first step must not go unseen.
        let since = Since::at(granted);
        if since.first_look(hold) < 2 * STAY {
            return watch_over(hold.clone(), since, hold.voters.around.alarm.listen(), false);
        }
        let young = Young { hold: Arc::downgrade(hold), since };
        let runtime = Handle::current().id();
        let mut wards = self.wards();
        match wards.iter_mut().find(|ward| ward.runtime == runtime) {
            Some(ward) => ward.take_in(young),
            None => {
                // Before anybody is in the ward: no alarm may find nobody who hears it.
                let alarm = hold.voters.around.alarm.listen();
                wards.push(Ward { runtime, young: vec![young], next: 0 });
                drop(wards);
                let nurse = Nurse { nursery: self.clone(), runtime, is_over: false };
                tokio::spawn(nurse.look_after(alarm));
            }
        }
    }

    fn wards(&self) -> MutexGuard<'_, Vec<Ward>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one task that looks after the young holds of a runtime.
struct Nurse {
    nursery: Nursery,
    runtime: Id,
    /// Whether the ward was closed.
    is_over: bool,
}

impl Nurse {
    /// Looks until there is nobody left to look after.
    async fn look_after(mut self, mut alarm: watch::Receiver<u64>) {
        loop {
            let alarmed = tokio::select! {
                biased;
                Ok(()) = alarm.changed() => true,
                () = sleep(STAY) => false,
            };
            let Some(young) = self.next() else { return };
            // A watchdog hears what comes from here on by the nurse's own ears, and misses nothing between.
            young.into_iter().for_each(|young| young.grow_up(alarm.clone(), alarmed));
        }
    }

    /// All who came since the last look and are still there; `None` closes the ward.
    fn next(&mut self) -> Option<Vec<Young>> {
        let mut wards = self.nursery.wards();
        let at = wards.iter().position(|ward| ward.runtime == self.runtime)?;
        if wards[at].young.is_empty() {
            wards.swap_remove(at);
            self.is_over = true;
            return None;
        }
        Some(std::mem::take(&mut wards[at].young))
    }
}

impl Drop for Nurse {
    /// Dropped before its end, its runtime is shut down: nobody will extend these locks any more, so say so.
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut wards = self.nursery.wards();
        let at = wards.iter().position(|ward| ward.runtime == self.runtime);
        let young = at.map(|at| wards.swap_remove(at).young).unwrap_or_default();
        drop(wards);
        let holds = young.into_iter().filter_map(|young| young.hold.upgrade());
        for hold in holds.filter(|hold| !hold.closed().is_fired()) {
            hold.lose(Loss::Unwatched);
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
        let nursery = &locker.keeper().nursery;
        let short = locker.named("short").unwrap();
        for _ in 0..200 {
            let _ = short.acquire().await.unwrap().release().await;
            // The nurse does not look, as time stands still while there is something to do.
            let wards = nursery.wards();
            let lives = wards[0].young.iter().filter(|young| young.hold.strong_count() > 0).count();
            assert_eq!(lives, 10);
            assert!(wards[0].young.len() <= 24, "{} are there", wards[0].young.len());
        }
    }
}
