//! Releasing: compare-and-delete on all nodes, an outcome at the quorum.

use crate::context::entropy;
use crate::context::event::ReleaseKind;
use crate::error::{NodeReport, listed};
use crate::node::{Done, Reply};
use crate::quorum::Nodes;
use crate::quorum::round::Round;
use crate::quorum::votes::Votes;
use quorlock_core::{Backoff, Verdict};
use std::fmt;
use std::pin::Pin;
use tokio::time::sleep;

/// How often a release is sent before it is called unconfirmed. Nodes that come back later still get it.
const MAX_SENDS: u32 = 3;

/// What became of a release. None of them is an error: the lock is not ours any more.
#[derive(Clone, Debug)]
#[must_use = "an unconfirmed release may keep others waiting until the ttl is over"]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// A majority of nodes released it.
    Released,
    /// A majority of nodes did not have it: it expired, or another client removed it.
    AlreadyGone,
    /// Too few nodes answered. Those that did not still get the release when they come back; at the
    /// latest the ttl frees the lock.
    Unconfirmed {
        /// What each node answered.
        nodes: Vec<NodeReport>,
    },
}

impl ReleaseOutcome {
    /// A stable word for the outcome, for logs and metrics.
    pub fn kind(&self) -> &'static str {
        self.event_kind().kind()
    }

    pub(crate) fn event_kind(&self) -> ReleaseKind {
        match self {
            ReleaseOutcome::Released => ReleaseKind::Released,
            ReleaseOutcome::AlreadyGone => ReleaseKind::AlreadyGone,
            ReleaseOutcome::Unconfirmed { .. } => ReleaseKind::Unconfirmed,
        }
    }
}

impl fmt::Display for ReleaseOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReleaseOutcome::Released => f.write_str("released"),
            ReleaseOutcome::AlreadyGone => f.write_str("already gone"),
            ReleaseOutcome::Unconfirmed { nodes } => write!(f, "unconfirmed: {}", listed(nodes)),
        }
    }
}

/// Waits for the replies to `round`, the first send of a release, and sends it a few times more to nodes
/// that failed. Also returns whether another client may wait for the lock.
///
/// # Cancel safety
/// Cancel safe: the release is on its way to every node before the first wait.
pub(crate) async fn await_release(nodes: &Nodes, mut round: Pin<&mut Round>) -> (ReleaseOutcome, bool) {
    let timeout = nodes.ctx.node_timeout;
    let mut pause = Backoff::new(timeout / 2, timeout * 2);
    let mut votes = Votes::new(nodes);
    let mut has_waiters = false;
    for left in (0..MAX_SENDS).rev() {
        while let Some((node, reply)) = round.as_mut().next().await {
            has_waiters |= !matches!(reply, Reply::Done(Done::Unawaited));
            votes.record_release(node, &reply);
            if let Some(outcome) = decided(&votes) {
                return (outcome, has_waiters);
            }
        }
        if is_free_on_majority(nodes, &votes) {
            return (ReleaseOutcome::Released, has_waiters);
        }
        if left > 0 {
            Box::pin(sleep(pause.next(entropy::number(nodes.ctx.entropy.as_ref())))).await;
            let again = round.commands().clone();
            round.set(nodes.ask_some(votes.unanswered(), again, timeout));
        }
    }
    (ReleaseOutcome::Unconfirmed { nodes: votes.into_report() }, true)
}

fn decided(votes: &Votes<'_>) -> Option<ReleaseOutcome> {
    if votes.verdict() == Verdict::Granted {
        return Some(ReleaseOutcome::Released);
    }
    votes.is_denied().then_some(ReleaseOutcome::AlreadyGone)
}

/// Whether a majority does not have the lock any more, by answers of both kinds, at least one of which
/// released it.
fn is_free_on_majority(nodes: &Nodes, votes: &Votes<'_>) -> bool {
    votes.yes() > 0 && votes.yes() + votes.no() >= nodes.quorum.needed()
}
