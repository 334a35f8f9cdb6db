//! Keeps a held lock alive, and announces its loss by a local timer before the deadline.

use crate::context::entropy;
use crate::context::injected_bug::Planted;
use crate::hold::Hold;
use crate::hold::extend::{extend, is_lost};
use quorlock_core::{Backoff, Loss, Moment, Standing};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// A boot clock that ran ahead of the timers by this much means that the machine slept.
const SLEPT: Duration = Duration::from_millis(500);

/// Watches over `hold`, on a task of its own, until it is lost or its guard lets go. Hears every `alarm` that was not heard;
/// `alarmed` if it must look at once.
pub(crate) fn watch_over(hold: Arc<Hold>, since: Since, alarm: watch::Receiver<u64>, alarmed: bool) {
    let mut watchdog = Watchdog::new(hold, since, alarm, alarmed);
    tokio::spawn(async move { while watchdog.look().await {} });
}

/// When the watch over a hold began, by both clocks that its watchdog compares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    boot: Moment,
    timers: Instant,
}

impl Since {
    pub(crate) fn now(hold: &Hold) -> Self {
        Self::at(hold.now())
    }

    /// Right after the boot clock was `boot`.
    pub(crate) fn at(boot: Moment) -> Self {
        Self { boot, timers: Instant::now() }
    }

    /// How soon the watchdog must first look.
    pub(crate) fn first_look(self, hold: &Hold) -> Duration {
        (hold.options.ttl.validity() / 3).min(self.boot.until(hold.announce_at()))
    }
}

struct Watchdog {
    hold: Arc<Hold>,
    alarm: watch::Receiver<u64>,
    extend_at: Moment,
    looked: Since,
    /// Whether there was an alarm that it has not looked after yet.
    alarmed: bool,
    retry: Backoff,
}

/// What woke the watchdog.
enum Woken {
    Closed,
    Alarm,
    Timer,
}

impl Watchdog {
    fn new(hold: Arc<Hold>, since: Since, alarm: watch::Receiver<u64>, alarmed: bool) -> Self {
        let span = hold.options.ttl.validity();
        Self {
            alarm,
            extend_at: since.boot + span / 3,
            looked: since,
            alarmed,
            retry: Backoff::new((span / 30).max(hold.voters.around.node_timeout / 2), span / 10),
            hold,
        }
    }

    /// Sleeps until there is something to do and does it. `false` when there is nothing left to watch.
    async fn look(&mut self) -> bool {
        let wake_at =
            if self.extends() { self.extend_at.min(self.announce_at()) } else { self.announce_at() };
        let woken = tokio::select! {
            biased;
            () = self.hold.closed().wait() => Woken::Closed,
            () = ready(()), if std::mem::take(&mut self.alarmed) => Woken::Alarm,
            Ok(()) = self.alarm.changed() => Woken::Alarm,
            () = sleep(self.hold.now().until(wake_at)) => Woken::Timer,
        };
        if matches!(woken, Woken::Closed) || self.hold.lost().is_fired() {
            return false;
        }
        if matches!(woken, Woken::Alarm) {
            // The runtime that compared the clocks may be gone.
            self.hold.keeper.ticker.start(&self.hold.voters.around);
        }
        let slept = self.slept();
        if self.hold.now() >= self.announce_at() {
            self.hold.lose(self.reason(slept));
            return false;
        }
        let due = self.hold.now() >= self.extend_at || matches!(woken, Woken::Alarm);
        if self.extends() && due {
            return self.extend().await;
        }
        true
    }

    /// Extends, but never past the moment at which the loss must be announced.
    async fn extend(&mut self) -> bool {
        let limit = self.hold.now().until(self.announce_at());
        let hold = self.hold.clone();
        let round = async {
            let rest = extend(&hold, hold.options.ttl).await?;
            rest.top_up(&hold).await;
            Ok(())
        };
        let result = tokio::select! {
            biased;
            () = self.hold.closed().wait() => return false,
            result = round => result,
            // The next look announces the loss, or finds that a majority had extended already.
            () = sleep(limit) => return true,
        };
        match result {
            Ok(()) => {
                self.retry.reset();
                self.extend_at = self.hold.now() + self.hold.options.ttl.validity() / 3;
                true
            }
            Err(error) => {
                if self.hold.is_doubtful() {
                    self.hold.lose(Loss::Suspended);
                    return false;
                }
                let random = entropy::number(self.hold.voters.around.entropy.as_ref());
                self.extend_at = self.hold.now() + self.retry.next(random);
                is_lost(&error).is_none()
            }
        }
    }

    /// When the loss is announced unless an extension comes first.
    fn announce_at(&self) -> Moment {
        let is_silent = self.hold.voters.around.is_planted(Planted::LossByAnswer);
        if is_silent { self.hold.now() + Duration::from_secs(3_600) } else { self.hold.announce_at() }
    }

    fn extends(&self) -> bool {
        let unverified = self.hold.standing() == Standing::Unverified;
        self.hold.options.watchdog && (unverified || !self.hold.at_longest_hold())
    }

    /// Whether the machine slept since the last look.
    fn slept(&mut self) -> bool {
        let now = Since::now(&self.hold);
        let boot = now.boot.since(self.looked.boot);
        let timers = now.timers.duration_since(self.looked.timers);
        self.looked = now;
        boot.saturating_sub(timers) >= SLEPT
    }

    fn reason(&self, slept: bool) -> Loss {
        if slept || self.hold.standing() == Standing::Unverified {
            Loss::Suspended
        } else if self.hold.at_longest_hold() {
            Loss::MaxHold
        } else if self.hold.has_failed() {
            Loss::QuorumLost
        } else if self.hold.is_lent() {
            Loss::LeaseExpired
        } else {
            Loss::Expired
        }
    }
}

impl Drop for Watchdog {
    /// Also reached when the runtime is shut down under a guard: nobody extends the lock any more, so say so.
    fn drop(&mut self) {
        if !self.hold.closed().is_fired() && !self.hold.lost().is_fired() {
            self.hold.lose(Loss::Unwatched);
        }
    }
}
