//! Keeps a held lock alive, and announces its loss by a local timer before the deadline.

use crate::context::RecheckReceiver;
use crate::context::entropy;
use crate::hold::HeldLock;
use crate::hold::extend::{extend, is_lost};
use quorlock_core::{Backoff, LeaseState, LossReason, Moment};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A boot clock that ran ahead of the timers by this much means that the machine slept.
const SLEPT: Duration = Duration::from_millis(500);

/// Watches over `hold`, on a task of its own, until it is lost or its guard ends. Reacts to every signal
/// of `recheck` that was not received yet; `recheck_due` if it must check at once.
pub(crate) fn watch_over(
    hold: Arc<HeldLock>,
    since: StartInstants,
    recheck: RecheckReceiver,
    recheck_due: bool,
) {
    let mut watchdog = Watchdog::new(hold, since, recheck, recheck_due);
    tokio::spawn(async move { while watchdog.step().await {} });
}

/// When the watch over a hold began, by both clocks that its watchdog compares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartInstants {
    boot: Moment,
    timers: Instant,
}

impl StartInstants {
    pub(crate) fn now(hold: &HeldLock) -> Self {
        Self::at(hold.now())
    }

    /// Right after the boot clock was `boot`.
    pub(crate) fn at(boot: Moment) -> Self {
        Self { boot, timers: Instant::now() }
    }

    /// How soon the watchdog must check for the first time.
    pub(crate) fn first_check(self, hold: &HeldLock) -> Duration {
        (hold.options.ttl.validity() / 3).min(self.boot.until(hold.announce_at()))
    }
}

struct Watchdog {
    hold: Arc<HeldLock>,
    recheck: RecheckReceiver,
    extend_at: Moment,
    last_check: StartInstants,
    /// Whether a recheck was signalled that it has not acted on yet.
    recheck_due: bool,
    retry: Backoff,
}

/// What woke the watchdog.
enum Woken {
    Closed,
    RecheckSignal,
    Timer,
}

impl Watchdog {
    fn new(hold: Arc<HeldLock>, since: StartInstants, recheck: RecheckReceiver, recheck_due: bool) -> Self {
        let span = hold.options.ttl.validity();
        Self {
            recheck,
            extend_at: since.boot + span / 3,
            last_check: since,
            recheck_due,
            retry: Backoff::new((span / 30).max(hold.nodes().ctx.node_timeout / 2), span / 10),
            hold,
        }
    }

    /// Sleeps until there is something to do and does it. `false` when there is nothing left to watch.
    async fn step(&mut self) -> bool {
        let wake_at =
            if self.extends() { self.extend_at.min(self.announce_at()) } else { self.announce_at() };
        let woken = tokio::select! {
            biased;
            () = self.hold.closed().wait() => Woken::Closed,
            () = ready(()), if std::mem::take(&mut self.recheck_due) => Woken::RecheckSignal,
            () = self.recheck.changed() => Woken::RecheckSignal,
            () = sleep(self.hold.now().until(wake_at)) => Woken::Timer,
        };
        if matches!(woken, Woken::Closed) || self.hold.lost().is_fired() {
            return false;
        }
        if matches!(woken, Woken::RecheckSignal) {
            // The runtime that compared the clocks may have shut down.
            self.hold.keeper.clock_jumps.start(&self.hold.nodes().ctx);
        }
        let slept = self.slept();
        if self.hold.now() >= self.announce_at() {
            self.hold.lose(self.reason(slept));
            return false;
        }
        let due = self.hold.now() >= self.extend_at || matches!(woken, Woken::RecheckSignal);
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
            rest.repair(&hold).await;
            Ok(())
        };
        let result = tokio::select! {
            biased;
            () = self.hold.closed().wait() => return false,
            result = round => result,
            // The next step announces the loss, or finds that a majority had extended already.
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
                    self.hold.lose(LossReason::Suspended);
                    return false;
                }
                let random = entropy::number(self.hold.nodes().ctx.entropy.as_ref());
                self.extend_at = self.hold.now() + self.retry.next(random);
                is_lost(&error).is_none()
            }
        }
    }

    /// When the loss is announced unless an extension comes first.
    fn announce_at(&self) -> Moment {
        self.hold.nodes().ctx.injected.announce_at(self.hold.announce_at(), || self.hold.now())
    }

    fn extends(&self) -> bool {
        let unverified = self.hold.state() == LeaseState::Unverified;
        self.hold.options.watchdog && (unverified || !self.hold.at_longest_hold())
    }

    /// Whether the machine slept since the last check.
    fn slept(&mut self) -> bool {
        let now = StartInstants::now(&self.hold);
        let boot = now.boot.since(self.last_check.boot);
        let timers = now.timers.duration_since(self.last_check.timers);
        self.last_check = now;
        boot.saturating_sub(timers) >= SLEPT
    }

    fn reason(&self, slept: bool) -> LossReason {
        if slept || self.hold.state() == LeaseState::Unverified {
            LossReason::Suspended
        } else if self.hold.at_longest_hold() {
            LossReason::MaxHold
        } else if self.hold.has_failed() {
            LossReason::QuorumLost
        } else if self.hold.is_lent() {
            LossReason::LeaseExpired
        } else {
            LossReason::Expired
        }
    }
}

impl Drop for Watchdog {
    /// Also reached when the runtime shuts down under a guard: nothing extends the lock any more, so
    /// announce the loss.
    fn drop(&mut self) {
        if !self.hold.closed().is_fired() && !self.hold.lost().is_fired() {
            self.hold.lose(LossReason::Unwatched);
        }
    }
}
