//! A held lock in the hands of its user: extended and released for them.

use crate::context::options::TtlRules;
use crate::context::trace;
use crate::error::{ConfigError, ExtendError, Lost};
use crate::hold::HeldLock;
use crate::hold::extend::extend;
use crate::hold::handle::Handle;
use crate::hold::release::{ReleaseOutcome, hear_release};
use quorlock_core::{LeaseState, LossReason, Moment, Name, Owner, Token, Wall};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A held lock. It is kept alive in the background and released when dropped.
///
/// Use [`Guard::release`] to learn what became of the release; a dropped guard sends it without waiting. All that
/// can be asked of a held lock stands at [`Held`], to which a guard dereferences.
///
/// A guard proves that the lock *was* granted, not that it still is: a process can be paused at any moment. Watch
/// [`Held::lost`] while you work, and let the protected resource compare [`Held::fence`].
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    held: Held,
}

impl Guard {
    /// Takes charge of `hold`, which was `granted` just now, and sees to its watchdog.
    pub(crate) fn new(hold: Arc<HeldLock>, granted: Moment, rules: TtlRules) -> Self {
        hold.keeper.clock_jumps.enter(&hold.nodes.ctx);
        hold.keeper.watchdogs.take(&hold, granted);
        Self { held: Held { hold, rules } }
    }

    /// Releases the lock on all nodes and says what became of it. Never an error: it is not ours any more.
    ///
    /// Answers as soon as a majority has; nodes that did not answer are asked a few times more, and those that
    /// come back later still get the release.
    ///
    /// # Cancel safety
    /// Cancel safe: dropped half-way, the release is on its way to every node.
    pub async fn release(self) -> ReleaseOutcome {
        let hold = self.held.hold.clone();
        let ended = hold.end(|hold| Box::pin(hold.nodes.ask(hold.release_command())));
        drop(self);
        // Only `release`, `detach`, `into_handle` and `drop` end a hold, and each takes the guard.
        let Some(mut ended) = ended else { return ReleaseOutcome::AlreadyGone };
        let span = trace::releasing(&hold.name);
        let (outcome, others) = trace::traced!(span, hear_release(&hold.nodes, &mut ended.sent));
        hold.set_others(others);
        hold.emit_released(outcome.kind(), &ended);
        outcome
    }

    /// Stops keeping the lock alive without releasing it, and gives what another process needs to take it over
    /// with [`Locker::adopt`](crate::Locker::adopt).
    ///
    /// The lock is extended once more, so that the other side has its full ttl to come.
    ///
    /// # Errors
    /// [`ExtendError`] if that extension fails; the lock is then released.
    ///
    /// # Cancel safety
    /// Dropped half-way, the lock is released.
    pub async fn into_handle(self) -> Result<Handle, ExtendError> {
        let hold = &self.held.hold;
        hold.outlive_process();
        extend(hold, hold.options.ttl).await?.repair(hold).await;
        if let LeaseState::Lost(reason) = hold.state() {
            return Err(hold.lose(reason).into());
        }
        let handle = Handle::of(hold);
        hold.give_away();
        Ok(handle)
    }

    /// Stops looking after the lock without a word to the nodes: it stays held until its ttl is over, and whoever has
    /// the [token](Held::token) can go on to [extend](crate::Lock::extend_token) and
    /// [release](crate::Lock::force_release) it.
    ///
    /// For programs that lease locks to others by their tokens.
    pub fn leave(self) {
        self.held.hold.give_away();
    }
}

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let hold = &self.held.hold;
        hold.keeper.clock_jumps.leave();
        if let Some(ended) = hold.end(|hold| hold.nodes.send(hold.release_command())) {
            hold.emit_released("dropped", &ended);
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Guard");
        shown
            .field("name", self.name())
            .field("fence", &self.fence())
            .field("remaining", &self.remaining())
            .finish()
    }
}

/// What can be asked of a held lock. It does not keep the lock: only the [`Guard`] does.
pub struct Held {
    hold: Arc<HeldLock>,
    rules: TtlRules,
}

impl Held {
    /// The same for another task or thread. Cheap; like this one, it does not keep the lock.
    ///
    /// It is no `Clone`, as `guard.clone()` would then look like a second guard.
    pub fn share(&self) -> Self {
        Self { hold: self.hold.clone(), rules: self.rules }
    }

    /// How long a node is waited for.
    pub(crate) fn node_timeout(&self) -> Duration {
        self.hold.nodes.ctx.node_timeout
    }

    /// The name of the lock.
    pub fn name(&self) -> &Name {
        &self.hold.name
    }

    /// Who took it, since when and why, as the nodes store it.
    pub fn owner(&self) -> Owner {
        self.hold.label.owner()
    }

    /// The random proof of ownership. Whoever has it can extend and release the lock.
    pub fn token(&self) -> Token {
        self.hold.token()
    }

    /// The number to send with every write to the protected resource, which refuses one lower than it has seen.
    pub fn fence(&self) -> u64 {
        self.hold.fence().get()
    }

    /// How long the lock is held for sure, if nobody extends it; zero if it is lost or must be verified first.
    ///
    /// Reads the clocks, asks nobody.
    pub fn remaining(&self) -> Duration {
        match self.hold.state() {
            LeaseState::Held { left } => left,
            LeaseState::Unverified | LeaseState::Lost(_) => Duration::ZERO,
        }
    }

    /// Time to the deadline, by our own boot clock.
    ///
    /// Unlike [`Held::remaining`] it does not become zero when a loss is announced before the deadline, nor when the
    /// guard lets go: it bounds how long work that is still under way may take to stop. It does not say that the
    /// lock is held: after [`LossReason::Taken`], [`LossReason::Suspended`] or a release others may have it at any time.
    ///
    /// Reads the clock, asks nobody.
    pub fn time_left(&self) -> Duration {
        self.hold.time_left()
    }

    /// The deadline by the wall clock as it stands now, for people; it moves when that clock is set.
    pub fn expires_at(&self) -> Wall {
        self.hold.expires_at()
    }

    /// How many nodes had agreed when the last acquire or extension was decided. Others may have followed.
    pub fn votes(&self) -> usize {
        self.hold.votes()
    }

    /// What the lock is worth right now: held, to be verified, or lost and why.
    ///
    /// Reads the clocks, asks nobody.
    pub fn state(&self) -> LeaseState {
        self.hold.state()
    }

    /// Whether the lock is held for sure right now; [`Held::state`] says what else it may be.
    pub fn is_held(&self) -> bool {
        matches!(self.hold.state(), LeaseState::Held { .. })
    }

    /// Why the lock is lost, if it is by now; everybody is told.
    pub(crate) fn check_lost(&self) -> Option<Lost> {
        match self.hold.state() {
            LeaseState::Lost(reason) => Some(self.hold.lose(reason)),
            LeaseState::Held { .. } | LeaseState::Unverified => None,
        }
    }

    /// Waits until the lock is lost. The announcement comes from a local timer before the deadline, whatever the
    /// nodes do, so that there is time to stop.
    ///
    /// Also returns when the guard lets the lock go, so that tasks with a copy of this do not wait for ever.
    ///
    /// # Cancel safety
    /// Cancel safe, and may be called any number of times.
    pub async fn lost(&self) -> Lost {
        self.hold.lost().wait().await;
        let reason = match self.hold.state() {
            LeaseState::Lost(reason) => reason,
            LeaseState::Held { .. } | LeaseState::Unverified => LossReason::Expired,
        };
        Lost { lock: self.hold.name.clone(), reason }
    }

    /// A token that is cancelled when the lock is lost, for code that takes one.
    pub fn lost_token(&self) -> CancellationToken {
        self.hold.lost().token().child_token()
    }

    /// Extends the lock by its ttl from now. Not needed while the watchdog is on.
    ///
    /// # Errors
    /// [`ExtendError::Lost`] if it is lost for good; [`ExtendError::NoQuorum`] if too few nodes answered: it is
    /// then held until the deadline that it had, and can be tried again.
    ///
    /// # Cancel safety
    /// Cancel safe: the nodes may have extended, the deadline is then the old one.
    pub async fn extend(&self) -> Result<Duration, ExtendError> {
        self.extend_by(self.hold.options.ttl.span()).await
    }

    /// Extends the lock by `ttl` from now. It never becomes shorter.
    ///
    /// # Errors
    /// As [`Held::extend`], and [`ExtendError::Config`] if the ttl cannot be used.
    ///
    /// # Cancel safety
    /// As [`Held::extend`].
    pub async fn extend_by(&self, ttl: Duration) -> Result<Duration, ExtendError> {
        let ttl = self.rules.check(ttl).map_err(|error: ConfigError| ExtendError::Config(error))?;
        extend(&self.hold, ttl).await?.repair_later(self.hold.clone());
        // A pause behind the last vote may have used the time up.
        self.check_lost().map_or_else(|| Ok(self.remaining()), |lost| Err(lost.into()))
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("name", self.name()).field("standing", &self.state()).finish()
    }
}
