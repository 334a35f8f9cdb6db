//! An election: a lock whose holder publishes a value, such as its address.

use crate::acquire::hint_subscription::HintSubscription;
use crate::context::entropy;
use crate::context::options::setting;
use crate::error::{AcquireError, Holder};
use crate::hold::guard::Guard;
use crate::hold::release::ReleaseOutcome;
use crate::inspect::InspectError;
use crate::locker::lock::Lock;
use crate::node::Wakeup;
use quorlock_core::{Backoff, Fence, Name, Owner, printable};
use std::ops::Deref;
use std::time::Duration;
use tokio::time::timeout;

/// How often an observer asks the nodes: soon after a hint, then ever more slowly.
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// One of several candidates leads at a time. Cheap to clone.
///
/// It is a lock by the same name: a candidate that waits for the lock campaigns, its holder leads, and the
/// fence is the term. Terms only rise, so followers can refuse an outdated leader.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locker = quorlock::Locker::builder().nodes(["memory:"]).build()?;
/// let election = locker.election("scheduler")?;
/// let leadership = election.campaign("10.0.0.7:8080").await?; // waits, bounded as an acquire
/// let leader = election.leader().await?.expect("a leader");
/// assert_eq!((leader.value.as_str(), leader.term), ("10.0.0.7:8080", leadership.term()));
/// leadership.resign().await;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "an election does nothing until a candidate campaigns"]
pub struct Election {
    lock: Lock,
}

/// Who leads, as a majority of nodes reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// What the leader published.
    pub value: String,
    /// The leader's term: its fence.
    pub term: Fence,
    /// Who the leader is.
    pub owner: Owner,
}

impl Election {
    /// The longest value in bytes.
    pub const MAX_VALUE: usize = 200;

    pub(crate) fn new(lock: Lock) -> Self {
        Self { lock }
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        self.lock.name()
    }

    /// Changes the settings of the leadership, as those of a lock: `election.with(|lock| lock.ttl(ttl))`.
    pub fn with(mut self, change: impl FnOnce(Lock) -> Lock) -> Self {
        self.lock = change(self.lock);
        self
    }

    /// Campaigns until this candidate leads, and publishes `value`: 1 to 200 bytes of printable text.
    ///
    /// It waits as [`Lock::acquire`] does; give a long [wait limit](Lock::wait_timeout), or call it again.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; [`AcquireError::Config`] if the value cannot be published.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn campaign(&self, value: impl Into<String>) -> Result<Leadership, AcquireError> {
        let value = value.into();
        if value.is_empty() || printable(value.trim(), Self::MAX_VALUE) != value {
            let shown = printable(&value, 40);
            let source = setting("a leader's value", shown, "give 1 to 200 bytes of printable text");
            return Err(AcquireError::Config { lock: self.name().clone().into(), source });
        }
        let guard = self.lock.clone().reason(value.as_str()).acquire().await?;
        Ok(Leadership { guard, value })
    }

    /// Who leads now; `None` if no candidate has a majority.
    ///
    /// The answer may be old by the time it is read: compare terms.
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed anywhere.
    pub async fn leader(&self) -> Result<Option<Leader>, InspectError> {
        Ok(leader_of(self.lock.inspect().await?.holder))
    }

    /// Follows the leaders, from the current one on.
    pub fn observe(&self) -> Observation {
        self.observe_after(None)
    }

    /// Follows the leaders whose terms are above `last`.
    pub fn observe_after(&self, last: Option<Fence>) -> Observation {
        Observation { lock: self.lock.clone(), last }
    }
}

fn leader_of(holder: Holder) -> Option<Leader> {
    match holder {
        Holder::Owner { fence, owner, .. } => {
            Some(Leader { value: owner.reason.clone().unwrap_or_default(), term: fence, owner })
        }
        _ => None,
    }
}

/// The leaders of an election, one after another, by rising terms.
#[derive(Debug)]
pub struct Observation {
    lock: Lock,
    /// The term that was returned last.
    last: Option<Fence>,
}

impl Observation {
    /// The next leader: the current one at the first call, then each with a higher term. A leader that led
    /// only for a moment may be left out.
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered; call it again to go on.
    ///
    /// # Cancel safety
    /// Cancel safe: a leader that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Result<Leader, InspectError> {
        let nodes = self.lock.nodes();
        nodes.wait_connected().await;
        let wakeup = Wakeup::new();
        let names = self.lock.name().clone().into();
        // Subscribed before the inspection, so that no release falls between.
        let _hints = HintSubscription::of_names(nodes, self.lock.queues().0, &names, &wakeup);
        let mut poll = Backoff::new(POLL.0, POLL.1);
        loop {
            let found = self.lock.inspect().await?;
            if let Some(leader) = leader_of(found.holder)
                && self.last.is_none_or(|last| leader.term > last)
            {
                self.last = Some(leader.term);
                return Ok(leader);
            }
            let delay = poll.next(entropy::number(nodes.ctx.entropy.as_ref()));
            if timeout(delay, wakeup.notified()).await.is_ok() {
                poll.reset();
            }
        }
    }
}

/// A won election; everything else is as with a [`Guard`]. Stop leading when it is [lost](Guard::lost).
#[derive(Debug)]
#[must_use = "the candidate resigns as soon as this is dropped"]
pub struct Leadership {
    guard: Guard,
    value: String,
}

impl Leadership {
    /// The term: above that of every leader before. Send it with every command to followers.
    pub fn term(&self) -> Fence {
        self.guard.fence()
    }

    /// What was published.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Ends the leadership, so that another candidate can lead at once.
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn resign(self) -> ReleaseOutcome {
        self.guard.release().await
    }

    /// The guard of the leadership.
    pub fn into_guard(self) -> Guard {
        self.guard
    }
}

impl Deref for Leadership {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}
