//! A view of a held lock, for every task that works under it.

use crate::context::options::TtlRules;
use crate::error::{ExtendError, Lost, UpgradeError};
use crate::hold::HeldLock;
use crate::hold::extend::extend;
use crate::hold::upgrade::try_upgrade;
use quorlock_core::{Fence, LeaseState, LossReason, Mode, Name, NameSet, Owner, Token};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// A view of a held lock: its fence, how long it is held, and when it is lost. Cheap to clone.
///
/// It does not keep the lock: only the [`Guard`](crate::Guard) does. Hand copies to the tasks that work
/// under the lock.
///
/// ```
/// # async fn example(guard: quorlock::Guard) {
/// let lease = guard.lease();
/// tokio::spawn(async move {
///     let lost = lease.lost().await; // or the guard released the lock
///     eprintln!("stop: {lost}");
/// });
/// # }
/// ```
#[derive(Clone)]
pub struct Lease {
    pub(crate) hold: Arc<HeldLock>,
    pub(crate) rules: TtlRules,
}

impl Lease {
    /// How long one node may take to answer.
    pub(crate) fn node_timeout(&self) -> Duration {
        self.hold.nodes().ctx.node_timeout
    }

    /// The name of the lock; of several names the first.
    pub fn name(&self) -> &Name {
        self.hold.names.first()
    }

    /// All names that are held together, in the order of their text.
    pub fn names(&self) -> &[Name] {
        self.hold.names.as_slice()
    }

    pub(crate) async fn try_upgrade(&self) -> Result<(), UpgradeError> {
        try_upgrade(&self.hold, &self.hold.keeper.fences).await
    }

    pub(crate) fn name_set(&self) -> &NameSet {
        &self.hold.names
    }

    /// How the lock is held.
    pub fn mode(&self) -> Mode {
        self.hold.mode()
    }

    /// Who took it, since when and why, as the nodes store it.
    pub fn owner(&self) -> Owner {
        self.hold.label.owner()
    }

    /// The random proof of ownership. A client that has it can extend and release the lock.
    pub fn token(&self) -> Token {
        self.hold.token()
    }

    /// The number to send with every write to the protected resource, which refuses one lower than it has
    /// seen.
    pub fn fence(&self) -> Fence {
        self.hold.fence()
    }

    /// How long the lock is held for sure, if it is not extended; zero if it is lost or must be verified
    /// first.
    ///
    /// Reads the clocks, asks no node.
    pub fn remaining(&self) -> Duration {
        match self.hold.state() {
            LeaseState::Held { left } => left,
            LeaseState::Unverified | LeaseState::Lost(_) => Duration::ZERO,
        }
    }

    /// Time to the deadline, by our own boot clock.
    ///
    /// Unlike [`Lease::remaining`] it does not become zero when a loss is announced before the deadline,
    /// nor when the guard releases the lock: it bounds how long work that is still under way may take to
    /// stop. It does not say that the lock is held: after [`LossReason::Taken`],
    /// [`LossReason::Suspended`] or a release another client may have it at any time.
    ///
    /// Reads the clock, asks no node.
    pub fn time_left(&self) -> Duration {
        self.hold.time_left()
    }

    /// The deadline by the wall clock as it is set now, for people; it moves when that clock is set.
    pub fn expires_at(&self) -> SystemTime {
        self.hold.expires_at().into()
    }

    /// How many nodes had agreed when the last acquire or extension was decided. Others may have followed.
    pub fn votes(&self) -> usize {
        self.hold.votes()
    }

    /// The state of the lock right now: held, unverified, or lost and why. Asks no node.
    pub fn state(&self) -> LeaseState {
        self.hold.state()
    }

    /// Whether the lock is held for sure right now; [`Lease::state`] says what else it may be.
    pub fn is_held(&self) -> bool {
        matches!(self.hold.state(), LeaseState::Held { .. })
    }

    /// Why the lock is lost, if it is by now. The first call that finds so announces the loss.
    pub(crate) fn check_lost(&self) -> Option<Lost> {
        match self.hold.state() {
            LeaseState::Lost(reason) => Some(self.hold.lose(reason)),
            LeaseState::Held { .. } | LeaseState::Unverified => None,
        }
    }

    /// Waits until the lock is lost. A local timer announces it before the deadline, whatever the nodes
    /// do, so that there is time to stop.
    ///
    /// Also returns when the guard releases the lock, so that tasks with a copy of this do not wait for ever.
    ///
    /// # Cancel safety
    /// Cancel safe, and may be called any number of times.
    pub async fn lost(&self) -> Lost {
        self.hold.lost().wait().await;
        let reason = match self.hold.state() {
            LeaseState::Lost(reason) => reason,
            LeaseState::Held { .. } | LeaseState::Unverified => LossReason::Expired,
        };
        Lost { lock: self.hold.names.clone(), reason }
    }

    /// A token that is cancelled when the lock is lost, for code that takes one.
    pub fn lost_token(&self) -> CancellationToken {
        self.hold.lost().token().child_token()
    }

    /// Extends the lock by its ttl from now. Not needed while the watchdog is on.
    ///
    /// # Errors
    /// [`ExtendError::Lost`] if it is lost for good; [`ExtendError::NoQuorum`] if too few nodes answered:
    /// it is then held until the deadline that it had, and can be tried again.
    ///
    /// # Cancel safety
    /// Cancel safe: the nodes may have extended, the deadline is then the old one.
    pub async fn extend(&self) -> Result<Duration, ExtendError> {
        self.extend_by(self.hold.options.ttl.span()).await
    }

    /// Extends the lock by `ttl` from now. It never becomes shorter.
    ///
    /// # Errors
    /// As [`Lease::extend`], and [`ExtendError::Config`] if the ttl cannot be used.
    ///
    /// # Cancel safety
    /// As [`Lease::extend`].
    pub async fn extend_by(&self, ttl: Duration) -> Result<Duration, ExtendError> {
        let ttl = self.rules.check(ttl)?;
        extend(&self.hold, ttl).await?.repair_later(self.hold.clone());
        // A pause after the last vote may have used the time up.
        self.check_lost().map_or_else(|| Ok(self.remaining()), |lost| Err(lost.into()))
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("name", self.name()).field("state", &self.state()).finish()
    }
}
