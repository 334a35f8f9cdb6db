//! Letting go: compare-and-delete on all nodes, an outcome at the quorum.

use crate::context::entropy;
use crate::error::{NodeReport, Said, listed};
use crate::node::{Done, Reply};
use crate::quorum::Voters;
use crate::quorum::round::Round;
use crate::quorum::votes::Words;
use quorlock_core::{Backoff, NodeSet};
use std::fmt;
use tokio::time::sleep;

/// How often a release is sent before it is called unconfirmed. Nodes that come back later still get it.
const MOST_TRIES: u32 = 3;

/// What became of a release. None of them is an error: the lock is not ours any more.
#[derive(Clone, Debug)]
#[must_use = "an unconfirmed release may keep others waiting until the ttl is over"]
#[non_exhaustive]
pub enum Release {
    /// A majority of nodes let it go.
    Released,
    /// A majority of nodes did not have it: it expired, or somebody removed it.
    AlreadyGone,
    /// Too few nodes answered. Those that did not still get the release when they come back; at the latest the
    /// ttl frees the lock.
    Unconfirmed {
        /// What each node said.
        nodes: Vec<NodeReport>,
    },
}

impl Release {
    /// A stable word for the outcome, for logs and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Release::Released => "released",
            Release::AlreadyGone => "already_gone",
            Release::Unconfirmed { .. } => "unconfirmed",
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Release::Released => f.write_str("released"),
            Release::AlreadyGone => f.write_str("already gone"),
            Release::Unconfirmed { nodes } => write!(f, "unconfirmed: {}", listed(nodes)),
        }
    }
}

/// Hears `round`, the first send of a release, and asks the nodes that failed a few times more. Also tells whether somebody
/// else may wait for the lock.
///
/// # Cancel safety
/// Cancel safe: the release is on its way to every node before the first wait.
pub(crate) async fn release(voters: &Voters, round: &mut Round) -> (Release, bool) {
    let timeout = voters.around.node_timeout;
    let mut pause = Backoff::new(timeout / 2, timeout * 2);
    let mut answers = Answers::new(voters);
    for left in (0..MOST_TRIES).rev() {
        while let Some((node, reply)) = round.next().await {
            answers.take(node, &reply);
            if let Some(outcome) = answers.outcome() {
                return (outcome, answers.awaited);
            }
        }
        if let Some(outcome) = answers.free_on_a_majority() {
            return (outcome, answers.awaited);
        }
        if left > 0 {
            Box::pin(sleep(pause.next(entropy::number(voters.around.entropy.as_ref())))).await;
            *round = voters.ask_some(answers.failed(), round.command().clone(), timeout);
        }
    }
    (Release::Unconfirmed { nodes: answers.report() }, true)
}

/// The last word of each node over all tries.
struct Answers<'a> {
    voters: &'a Voters,
    said: Words,
    /// Whether a node did not say that nobody waits.
    awaited: bool,
}

impl<'a> Answers<'a> {
    fn new(voters: &'a Voters) -> Self {
        Self { voters, said: Words::default(), awaited: false }
    }

    fn take(&mut self, node: usize, reply: &Reply) {
        self.awaited |= !matches!(reply, Reply::Done(Done::Unawaited));
        let said = self.voters.hear(node, reply);
        // Gone after an answer that we missed: it was our own release.
        let ours = self.said.has_failed(node) && matches!(said, Said::No);
        self.said.note(node, if ours { Said::Yes } else { said });
    }

    fn outcome(&self) -> Option<Release> {
        let quorum = self.voters.quorum;
        if self.said.yes() >= quorum.needed() {
            return Some(Release::Released);
        }
        (self.said.no() > quorum.spare()).then_some(Release::AlreadyGone)
    }

    /// What a majority of answers of both kinds means once all were heard.
    fn free_on_a_majority(&self) -> Option<Release> {
        let (yes, no) = (self.said.yes(), self.said.no());
        (yes > 0 && yes + no >= self.voters.quorum.needed()).then_some(Release::Released)
    }

    fn failed(&self) -> NodeSet {
        (0..self.voters.nodes.len()).filter(|node| !self.said.is_heard(*node)).collect()
    }

    fn report(self) -> Vec<NodeReport> {
        self.said.report(self.voters)
    }
}
