//! An election: a lock whose holder publishes a value, such as its address.

use crate::acquire::hint_subscription::HintSubscription;
use crate::context::entropy;
use crate::context::options::setting;
use crate::error::{AcquireError, Holder};
use crate::hold::guard::Guard;
use crate::hold::release::ReleaseOutcome;
use crate::inspect::{InspectError, Inspection};
use crate::locker::lock::Lock;
use crate::node::{Content, View, Wakeup};
use crate::quorum::Nodes;
use quorlock_core::{Backoff, Fence, Name, Owner, printable};
use std::collections::BTreeMap;
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

    /// Follows who leads, from the current leader on.
    pub fn observe(&self) -> Observation {
        self.observe_after(None)
    }

    /// Follows who leads after the leader of term `last`, which the caller knows already.
    pub fn observe_after(&self, last: Option<Fence>) -> Observation {
        Observation { lock: self.lock.clone(), last, is_vacant: false }
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

/// What an [`Observation`] saw next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaderChange {
    /// This candidate leads.
    Elected(Leader),
    /// No candidate leads any more: the leader resigned or was lost, and none has followed yet.
    Vacant {
        /// The term of the leader before.
        last_term: Fence,
    },
}

/// Who leads an election, change by change. Terms never fall.
#[derive(Debug)]
pub struct Observation {
    lock: Lock,
    /// The term that was returned last.
    last: Option<Fence>,
    /// Whether it was returned that this term is over.
    is_vacant: bool,
}

impl Observation {
    /// The next change: the current leader at the first call, then each leader with a higher term, and each
    /// vacancy after a leader that was returned.
    ///
    /// What lasted only for a moment may be left out. A vacancy is what a majority of nodes that can vote
    /// reports, so it may be old, too. If those nodes had only forgotten the leader and get it back, it is
    /// returned again, with the same term.
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered; call it again to go on.
    ///
    /// # Cancel safety
    /// Cancel safe: a change that was not returned is returned by the next call, if it still lasts.
    pub async fn next(&mut self) -> Result<LeaderChange, InspectError> {
        let nodes = self.lock.nodes().clone();
        nodes.wait_connected().await;
        let wakeup = Wakeup::new();
        let names = self.lock.name().clone().into();
        let queues = self.lock.queues().0.clone();
        // Subscribed before the inspection, so that no release falls between.
        let _hints = HintSubscription::of_names(&nodes, &queues, &names, &wakeup);
        let mut poll = Backoff::new(POLL.0, POLL.1);
        loop {
            let found = self.lock.inspect().await?;
            if let Some(change) = self.change(found, &nodes) {
                return Ok(change);
            }
            let delay = poll.next(entropy::number(nodes.ctx.entropy.as_ref()));
            if timeout(delay, wakeup.notified()).await.is_ok() {
                poll.reset();
            }
        }
    }

    /// What `found` changes of what was returned before.
    fn change(&mut self, found: Inspection, nodes: &Nodes) -> Option<LeaderChange> {
        let can_vote = |node: usize| nodes.all[node].health().trouble.is_none();
        let is_vacant = is_vacant(&found, can_vote);
        match (leader_of(found.holder), self.last) {
            (Some(leader), last) if last.is_none_or(|last| leader.term > last) => {
                self.last = Some(leader.term);
                self.is_vacant = false;
                Some(LeaderChange::Elected(leader))
            }
            // Nodes that had forgotten the leader got it back.
            (Some(leader), last) if self.is_vacant && last == Some(leader.term) => {
                self.is_vacant = false;
                Some(LeaderChange::Elected(leader))
            }
            (None, Some(last_term)) if is_vacant && !self.is_vacant => {
                self.is_vacant = true;
                Some(LeaderChange::Vacant { last_term })
            }
            _ => None,
        }
    }
}

/// Whether no candidate can lead: none would have a majority even with all nodes that gave no answer, or that
/// may not vote because they may have forgotten it.
fn is_vacant(found: &Inspection, can_vote: impl Fn(usize) -> bool) -> bool {
    let (mut candidates, mut unknown) = (BTreeMap::<&str, usize>::new(), 0);
    for (number, node) in found.nodes.iter().enumerate() {
        match &node.view {
            Ok(View { content: Content::Lock(stored), .. }) => {
                *candidates.entry(stored.token.as_str()).or_default() += 1;
            }
            Ok(_) if can_vote(number) => {}
            _ => unknown += 1,
        }
    }
    candidates.into_values().max().unwrap_or_default() + unknown < found.quorum.needed()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::NodeView;
    use crate::node::NodeError;
    use quorlock_core::{Quorum, StoredLock};

    /// An inspection in which each letter is what a node has: the token `a` or `b`, `.` nothing, `?` no
    /// answer, `f` another program's value.
    fn found(nodes: &str) -> Inspection {
        let view = |what: char| {
            let content = match what {
                '.' => Content::Free,
                'f' => Content::Foreign("x".into()),
                '?' => return Err(NodeError::Abandoned),
                token => {
                    let token = token.to_string().repeat(32);
                    Content::Lock(StoredLock::parse(format!("{token} 7 ann@web 1 1").as_bytes()).unwrap())
                }
            };
            Ok(View { content, ..View::default() })
        };
        Inspection {
            name: Name::new("x").unwrap(),
            quorum: Quorum::of(nodes.len()).unwrap(),
            holder: Holder::Nobody,
            left: None,
            votes: 0,
            fence: None,
            nodes: nodes.chars().map(|what| NodeView { node: "n".into(), view: view(what) }).collect(),
        }
    }

    #[test]
    fn a_vacancy_needs_a_majority_that_knows_of_no_leader() {
        for (nodes, vacant) in [
            (".", true),
            ("a", false),
            ("f", true),
            ("?", false),
            (".....", true),
            ("...??", true),
            ("..???", false),
            ("a..??", false),
            ("a...?", true),
            ("aa..?", false),
            ("aabb.", true),
            ("aab?.", false),
        ] {
            assert_eq!(is_vacant(&found(nodes), |_| true), vacant, "{nodes}");
        }
        assert!(!is_vacant(&found("..."), |node| node == 0), "two nodes may have forgotten it");
        assert!(is_vacant(&found("..."), |node| node != 0), "one may have");
    }
}
