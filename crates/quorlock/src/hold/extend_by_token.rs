//! Extending a lock when only its name and its token are known.

use crate::error::{ExtendError, Lost};
use crate::node::{Command, Commands, Content, Denied, Done, Reply, Tie};
use crate::quorum::Nodes;
use crate::quorum::round::Round;
use crate::quorum::votes::Votes;
use quorlock_core::{Fence, LossReason, Mode, Name, NameSet, Token, Ttl, Verdict};
use std::pin::pin;
use std::time::Duration;

/// What [`Lock::extend_token`](crate::Lock::extend_token) reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtendOutcome {
    /// How long the lock is held for sure from now on, counted from before the first send. The nodes may
    /// keep it longer, because an extension never shortens what was there.
    pub left: Duration,
    /// The holder's fence: the number that a majority of nodes stores with the token. `None` if too few nodes
    /// store the same, as after a node lost its memory; the fence of the acquire is then still the right one.
    pub fence: Option<Fence>,
    /// How many nodes had extended it when it was decided.
    pub votes: usize,
}

/// Extends the lock on `names` for the client that holds it with `token`.
///
/// # Cancel safety
/// Cancel safe: the nodes may have extended.
pub(crate) async fn extend_token(
    nodes: &Nodes,
    names: &NameSet,
    token: Token,
    ttl: Ttl,
) -> Result<ExtendOutcome, ExtendError> {
    let ctx = &nodes.ctx;
    let start = ctx.clock.now();
    let mut votes = Votes::new(nodes);
    // Whichever mode the lock is held in: the token is that of one hold.
    let mode = Mode::Shared;
    let (span, tie) = (ttl.span(), Tie::AsBefore);
    let extend = |name: &Name| Command::Extend {
        name: name.clone(),
        token,
        ttl: span,
        tie,
        mode,
        may_be_shared: true,
    };
    let mut round = Box::pin(nodes.ask(Commands::each(names, extend)));
    // Sent right behind the extend, so that the fence costs no second round trip.
    let inspection = nodes.ask(Command::Inspect { name: names.first().clone() });
    while votes.verdict() != Verdict::Granted
        && let Some((node, mut reply)) = round.as_mut().next().await
    {
        if matches!(reply, Reply::Denied(Denied::Gone)) && ctx.injected.counts_gone() {
            reply = Reply::Done(Done::Plain);
        }
        votes.record(node, &reply);
    }
    if votes.verdict() != Verdict::Granted {
        return Err(refused(nodes, names, votes));
    }
    let fence = fence_of(nodes, token, inspection).await;
    let left = ctx.clock.now().until(ttl.deadline(start));
    if left.is_zero() {
        return Err(Lost { lock: names.clone(), reason: LossReason::Expired }.into());
    }
    Ok(ExtendOutcome { left, fence, votes: votes.yes() })
}

fn refused(nodes: &Nodes, names: &NameSet, votes: Votes<'_>) -> ExtendError {
    let lock = names.clone();
    if votes.is_denied() {
        return Lost { lock, reason: LossReason::Taken }.into();
    }
    let answered = votes.yes();
    ExtendError::NoQuorum { lock, quorum: nodes.quorum, answered, nodes: votes.into_report() }
}

/// The number that a majority of nodes stores with `token`; no other was given to its holder as its fence.
async fn fence_of(nodes: &Nodes, token: Token, inspection: Round) -> Option<Fence> {
    let mut inspection = pin!(inspection);
    let mut stored_fences: Vec<Fence> = Vec::with_capacity(nodes.quorum.nodes());
    while let Some((_, reply)) = inspection.as_mut().next().await {
        let Reply::Done(Done::Seen(view)) = reply else { continue };
        let stored = match view.content {
            Content::Lock(stored) => Some(stored),
            Content::Shared(readers) => readers.into_iter().find(|reader| reader.token == token),
            Content::Foreign(_) | Content::Free => None,
        };
        let Some(stored) = stored.filter(|stored| stored.token == token) else { continue };
        stored_fences.push(stored.fence);
        let alike = stored_fences.iter().filter(|fence| **fence == stored.fence).count();
        if alike >= nodes.quorum.needed() {
            return Some(stored.fence);
        }
    }
    None
}
