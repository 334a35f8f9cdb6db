//! Extending a lock when only its name and its token are known.

use crate::error::{ExtendError, Lost};
use crate::node::{Command, Commands, Content, Denied, Done, Reply, Tie};
use crate::quorum::Nodes;
use crate::quorum::round::Round;
use crate::quorum::votes::Votes;
use quorlock_core::{Fence, LossReason, Mode, Name, NameSet, NodeSet, Token, Ttl};
use std::pin::{Pin, pin};
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
/// Whether it is held exclusively or shared, only the nodes say. A majority must say the same: nodes that
/// missed an upgrade store the hold of a writer as that of a reader, next to which others may read.
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
    let ask = |mode: Mode| {
        let (ttl, tie, may_be_shared) = (ttl.span(), Tie::AsBefore, true);
        let extend =
            |name: &Name| Command::Extend { name: name.clone(), token, ttl, tie, mode, may_be_shared };
        Box::pin(nodes.ask(Commands::each(names, extend)))
    };
    // Each node answers them in this order. One node alone cannot disagree.
    let is_alone = nodes.quorum.nodes() == 1;
    let mut as_writer = (!is_alone).then(|| ask(Mode::Exclusive));
    let mut as_any = ask(Mode::Shared);
    // Sent right behind them, so that the fence costs no second round trip.
    let inspection = nodes.ask(Command::Inspect { name: names.first().clone() });
    let (mut votes, mut exclusive, mut shared) = (Votes::new(nodes), NodeSet::default(), NodeSet::default());
    let mut not_exclusive = if is_alone { NodeSet::first(1) } else { NodeSet::default() };
    let needed = nodes.quorum.needed();
    while exclusive.len().max(shared.len()) < needed {
        let (node, reply) = tokio::select! {
            biased;
            Some((node, reply)) = next_of(&mut as_writer) => {
                match reply {
                    Reply::Done(_) => exclusive.insert(node),
                    Reply::Denied(_) => not_exclusive.insert(node),
                    Reply::Failed(_) => {}
                }
                continue;
            }
            Some(answer) = as_any.as_mut().next() => answer,
            else => break,
        };
        let is_gone = matches!(reply, Reply::Denied(Denied::Gone)) && ctx.injected.counts_gone();
        let reply = if is_gone { Reply::Done(Done::Plain) } else { reply };
        votes.record(node, &reply);
        if matches!(reply, Reply::Done(_)) && not_exclusive.contains(node) {
            shared.insert(node);
        }
    }
    let agreed = exclusive.len().max(shared.len());
    if agreed < needed {
        return Err(refused(nodes, names, votes, agreed));
    }
    let fence = fence_of(nodes, token, inspection).await;
    let left = ctx.clock.now().until(ttl.deadline(start));
    if left.is_zero() {
        return Err(Lost { lock: names.clone(), reason: LossReason::Expired }.into());
    }
    Ok(ExtendOutcome { left, fence, votes: agreed })
}

async fn next_of(round: &mut Option<Pin<Box<Round>>>) -> Option<(usize, Reply)> {
    round.as_mut()?.as_mut().next().await
}

fn refused(nodes: &Nodes, names: &NameSet, votes: Votes<'_>, answered: usize) -> ExtendError {
    let lock = names.clone();
    if votes.is_denied() {
        return Lost { lock, reason: LossReason::Taken }.into();
    }
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
