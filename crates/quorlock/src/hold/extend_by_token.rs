//! Extending a lock of which only the name and the token are known.

use crate::context::injected_bug::Planted;
use crate::error::{ExtendError, Lost};
use crate::node::{Command, Content, Denied, Done, Reply, Tie};
use crate::quorum::Voters;
use crate::quorum::round::Round;
use crate::quorum::votes::Poll;
use quorlock_core::{Fence, Loss, Name, Token, Ttl, Verdict};
use std::time::Duration;

/// What [`Lock::extend_token`](crate::Lock::extend_token) reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extension {
    /// How long the lock is held for sure from now on, counted from before the first send. The nodes may keep it
    /// longer, as an extension never shortens what was there.
    pub left: Duration,
    /// The holder's fence: the number that a majority of nodes stores with the token. `None` if too few tell the
    /// same, as after a node lost its memory; the fence that the acquire gave then still is the right one.
    pub fence: Option<Fence>,
    /// How many nodes had extended it when it was decided.
    pub votes: usize,
}

/// Extends the lock `name` for whoever holds it with `token`.
///
/// # Cancel safety
/// Cancel safe: the nodes may have extended.
pub(crate) async fn extend_token(
    voters: &Voters,
    name: &Name,
    token: Token,
    ttl: Ttl,
) -> Result<Extension, ExtendError> {
    let clock = &voters.around.clock;
    let start = clock.now();
    let mut poll = Poll::new(voters);
    let span = ttl.span();
    let mut round = voters.ask(Command::Extend { name: name.clone(), token, ttl: span, tie: Tie::AsBefore });
    // Sent right behind, so that the fence costs no second round trip.
    let looks = voters.ask(Command::Inspect { name: name.clone() });
    let mut verdict = Verdict::Refused;
    while let Some((node, mut reply)) = round.next().await {
        let is_gone = matches!(reply, Reply::Denied(Denied::Gone));
        if is_gone && voters.around.is_planted(Planted::ExtendGone) {
            reply = Reply::Done(Done::Plain);
        }
        verdict = poll.count(node, &reply);
        if verdict == Verdict::Granted {
            break;
        }
    }
    if verdict != Verdict::Granted {
        return Err(refused(voters, name, poll));
    }
    let votes = poll.tally.yes();
    let fence = fence_of(voters, token, looks).await;
    let left = clock.now().until(ttl.deadline(start));
    if left.is_zero() {
        return Err(Lost { lock: name.clone(), loss: Loss::Expired }.into());
    }
    Ok(Extension { left, fence, votes })
}

fn refused(voters: &Voters, name: &Name, poll: Poll<'_>) -> ExtendError {
    let lock = name.clone();
    if poll.tally.denied_by_answers() {
        return Lost { lock, loss: Loss::Taken }.into();
    }
    let answered = poll.tally.yes();
    ExtendError::NoQuorum { lock, quorum: voters.quorum, answered, nodes: poll.report() }
}

/// The number that a majority of nodes stores with `token`; no other was given to its holder as its fence.
async fn fence_of(voters: &Voters, token: Token, mut looks: Round) -> Option<Fence> {
    let mut seen: Vec<Fence> = Vec::with_capacity(voters.quorum.nodes());
    while let Some((_, reply)) = looks.next().await {
        let Reply::Done(Done::Seen(view)) = reply else { continue };
        let Content::Lock(stored) = view.content else { continue };
        if stored.token != token {
            continue;
        }
        seen.push(stored.fence);
        if seen.iter().filter(|fence| **fence == stored.fence).count() >= voters.quorum.needed() {
            return Some(stored.fence);
        }
    }
    None
}
