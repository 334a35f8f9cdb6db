//! A held lock in the hands of its user: kept alive, and released on drop.

use crate::context::event::ReleaseKind;
use crate::context::options::TtlRules;
use crate::context::trace;
use crate::error::{ExtendError, Lost, UpgradeError};
use crate::hold::extend::extend;
use crate::hold::handle::LockHandle;
use crate::hold::lease::Lease;
use crate::hold::release::{ReleaseOutcome, await_release};
use crate::hold::{Ended, HeldLock};
use quorlock_core::{Fence, LeaseState, Mode, Moment, Name, Owner, Token};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// A held lock. It is kept alive in the background and released when dropped.
///
/// Use [`Guard::release`] to learn what became of the release; a dropped guard sends it without waiting.
///
/// A guard proves that the lock *was* granted, not that it still is: a process can be paused at any
/// moment. Watch [`Guard::lost`] while you work, and let the protected resource compare [`Guard::fence`].
///
/// ```
/// # async fn pay(fence: quorlock::Fence) {}
/// # async fn example(lock: quorlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
/// let guard = lock.acquire().await?;
/// tokio::select! {
///     biased;
///     lost = guard.lost() => return Err(lost.into()), // fires before the deadline
///     () = pay(guard.fence()) => {}                    // let the database compare the fence
/// }
/// println!("{}", guard.release().await);
/// # Ok(()) }
/// ```
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    lease: Lease,
}

impl Guard {
    /// Wraps `hold`, which was `granted` just now; its watchdog starts within 50 ms.
    pub(crate) fn new(hold: Arc<HeldLock>, granted: Moment, rules: TtlRules) -> Self {
        hold.keeper.watch(&hold, granted);
        Self { lease: Lease { hold, rules } }
    }

    /// Releases the lock on all nodes and returns the outcome. Never an error: the lock is not ours any
    /// more.
    ///
    /// Returns as soon as a majority has answered; nodes that did not are asked a few times more, and
    /// those that come back later still get the release.
    ///
    /// # Cancel safety
    /// Cancel safe: dropped half-way, the release is on its way to every node, and observers get
    /// [`ReleaseKind::Dropped`](crate::ReleaseKind::Dropped).
    pub async fn release(self) -> ReleaseOutcome {
        let hold = self.lease.hold.clone();
        let ended = hold.end(|hold| hold.nodes().ask(hold.release_commands()));
        drop(self);
        // Cannot happen: only `release`, `detach`, `into_handle` and `drop` end a hold, and each takes the
        // guard.
        let Some(Ended { sent, fence, held, lost }) = ended else { return ReleaseOutcome::AlreadyGone };
        let round = pin!(sent);
        let ended = Ended { sent: (), fence, held, lost };
        let mut release = SentRelease { hold, ended, outcome: ReleaseKind::Dropped };
        let span = trace::releasing(&release.hold.names);
        let (outcome, others_wait) = trace::traced!(span, await_release(release.hold.nodes(), round));
        release.hold.set_others_wait(others_wait);
        release.outcome = outcome.event_kind();
        outcome
    }

    /// Stops keeping the lock alive without releasing it, and returns what another process needs to take
    /// it over with [`Locker::adopt`](crate::Locker::adopt).
    ///
    /// The lock is extended once more, so that the other side has its full ttl to come.
    ///
    /// # Errors
    /// [`ExtendError`] if that extension fails; the lock is then released.
    ///
    /// # Cancel safety
    /// Dropped half-way, the lock is released.
    pub async fn into_handle(self) -> Result<LockHandle, ExtendError> {
        let hold = &self.lease.hold;
        hold.outlive_process();
        extend(hold, hold.options.ttl).await?.repair(hold).await;
        if let LeaseState::Lost(reason) = hold.state() {
            return Err(hold.lose(reason).into());
        }
        let handle = LockHandle::of(hold);
        hold.give_away();
        Ok(handle)
    }

    /// Stops keeping the lock alive and sends nothing to the nodes: it stays held until its ttl is over.
    /// A client that has the [token](Guard::token) can go on to [extend](crate::Lock::extend_token) and
    /// [release](crate::Lock::release_token) it.
    ///
    /// For programs that lease locks to others by their tokens.
    pub fn detach(self) {
        self.lease.hold.give_away();
    }

    /// Holds the lock shared from now on, so that other clients can share it. Does nothing if it is shared.
    ///
    /// The fence stays. Nodes that do not get this command follow with the next extension.
    pub fn downgrade(&self) {
        self.lease.hold.downgrade();
    }

    /// Makes a shared hold exclusive if no other client shares the lock. It never waits for others: two
    /// readers that waited for each other would wait for ever.
    ///
    /// An upgrade is an acquisition of its own: the [fence](Guard::fence) is a new one, above those of all
    /// clients that shared the lock before.
    ///
    /// # Errors
    /// [`UpgradeError`]; the lock is then held shared as before, unless it was lost.
    ///
    /// # Cancel safety
    /// Cancel safe: dropped half-way, the lock is held shared as before.
    pub async fn try_upgrade(&self) -> Result<(), UpgradeError> {
        self.lease.try_upgrade().await
    }

    /// A view of this lock for other tasks and threads.
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }
}

/// What a guard knows of its lock; a [`Lease`] says the same.
impl Guard {
    /// The name of the lock; of several names the first.
    pub fn name(&self) -> &Name {
        self.lease.name()
    }

    /// All names that are held together, in the order of their text.
    pub fn names(&self) -> &[Name] {
        self.lease.names()
    }

    /// How the lock is held.
    pub fn mode(&self) -> Mode {
        self.lease.mode()
    }

    /// Who took it, since when and why, as the nodes store it.
    pub fn owner(&self) -> Owner {
        self.lease.owner()
    }

    /// The random proof of ownership. A client that has it can extend and release the lock.
    pub fn token(&self) -> Token {
        self.lease.token()
    }

    /// The number to send with every write to the protected resource, which refuses one lower than it has
    /// seen.
    pub fn fence(&self) -> Fence {
        self.lease.fence()
    }

    /// How long the lock is held for sure, if it is not extended; see [`Lease::remaining`].
    pub fn remaining(&self) -> Duration {
        self.lease.remaining()
    }

    /// Time to the deadline, even after a loss was announced before it; see [`Lease::time_left`].
    pub fn time_left(&self) -> Duration {
        self.lease.time_left()
    }

    /// The deadline by the wall clock as it is set now, for people.
    pub fn expires_at(&self) -> SystemTime {
        self.lease.expires_at()
    }

    /// How many nodes had agreed when the last acquire or extension was decided.
    pub fn votes(&self) -> usize {
        self.lease.votes()
    }

    /// The state of the lock right now: held, unverified, or lost and why. Asks no node.
    pub fn state(&self) -> LeaseState {
        self.lease.state()
    }

    /// Whether the lock is held for sure right now. Asks no node.
    pub fn is_held(&self) -> bool {
        self.lease.is_held()
    }

    /// Waits until the lock is lost. A local timer announces it before the deadline, whatever the nodes do.
    ///
    /// # Cancel safety
    /// Cancel safe, and may be called any number of times.
    pub async fn lost(&self) -> Lost {
        self.lease.lost().await
    }

    /// A token that is cancelled when the lock is lost, for code that takes one.
    pub fn lost_token(&self) -> CancellationToken {
        self.lease.lost_token()
    }

    /// Extends the lock by its ttl from now. Not needed while the watchdog is on.
    ///
    /// # Errors
    /// As [`Lease::extend`].
    ///
    /// # Cancel safety
    /// As [`Lease::extend`].
    pub async fn extend(&self) -> Result<Duration, ExtendError> {
        self.lease.extend().await
    }

    /// Extends the lock by `ttl` from now. It never becomes shorter.
    ///
    /// # Errors
    /// As [`Lease::extend_by`].
    ///
    /// # Cancel safety
    /// As [`Lease::extend`].
    pub async fn extend_by(&self, ttl: Duration) -> Result<Duration, ExtendError> {
        self.lease.extend_by(ttl).await
    }

    pub(crate) fn check_lost(&self) -> Option<Lost> {
        self.lease.check_lost()
    }

    pub(crate) fn node_timeout(&self) -> Duration {
        self.lease.node_timeout()
    }
}

/// A release that was sent. Reported when this is dropped.
struct SentRelease {
    hold: Arc<HeldLock>,
    ended: Ended<()>,
    outcome: ReleaseKind,
}

impl Drop for SentRelease {
    fn drop(&mut self) {
        self.hold.emit_released(self.outcome, &self.ended);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let hold = &self.lease.hold;
        hold.keeper.unwatch();
        if let Some(ended) = hold.end(|hold| hold.nodes().send(hold.release_commands())) {
            hold.emit_released(ReleaseKind::Dropped, &ended);
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("names", &self.names())
            .field("fence", &self.fence())
            .field("remaining", &self.remaining())
            .finish()
    }
}
