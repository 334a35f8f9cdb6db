//! One round to extend a held lock, and the refill of nodes that do not have it.

use crate::context::event::Event;
use crate::context::injected_bug::Planted;
use crate::context::trace;
use crate::error::{ExtendError, Lost};
use crate::hold::Hold;
use crate::node::{Denied, Reply};
use crate::quorum::round::Round;
use crate::quorum::votes::Poll;
use quorlock_core::{Loss, Standing, Ttl, Verdict};
use std::sync::Arc;
use tracing::Instrument;

/// Nodes that were not heard or had lost the lock when a majority had extended it.
#[derive(Debug)]
#[must_use = "nodes that lost the lock want it back"]
pub(crate) struct Rest {
    round: Round,
    gone: Vec<usize>,
}

/// Asks all nodes to extend; answers as soon as a majority has.
///
/// A failed round changes nothing: the old deadline stands, and nothing is deleted. Only a majority of nodes that
/// answer that the lock is not there, or the end of its time, loses it.
///
/// # Cancel safety
/// Cancel safe: the nodes may have extended, the deadline is then the old one.
pub(crate) async fn extend(hold: &Hold, ttl: Ttl) -> Result<Rest, ExtendError> {
    ask_to_extend(hold, ttl).instrument(trace::extending(&hold.name)).await
}

async fn ask_to_extend(hold: &Hold, ttl: Ttl) -> Result<Rest, ExtendError> {
    let clock = &hold.voters.around.clock;
    let left = match hold.standing() {
        Standing::Lost(loss) => return Err(hold.lose(loss).into()),
        Standing::Held { left } => left,
        Standing::Unverified => hold.time_left(),
    };
    let start = (clock.now(), clock.wall());
    let mut poll = Poll::new(&hold.voters);
    let mut round = hold.voters.ask(hold.extension(ttl));
    let mut gone = Vec::new();
    let mut verdict = Verdict::Pending;
    while verdict == Verdict::Pending
        && let Some(next) = hear(&mut round, &mut poll, &mut gone).await
    {
        verdict = next;
    }
    let votes = poll.tally.yes();
    if verdict == Verdict::Granted {
        let is_late = hold.voters.around.is_planted(Planted::LateDeadline);
        let start = if is_late { (clock.now(), clock.wall()) } else { start };
        hold.confirm(ttl, start, votes).map_err(|loss| hold.lose(loss))?;
        hold.voters.around.emit(&Event::Extended { name: hold.name.clone(), left, votes });
        return Ok(Rest { round, gone });
    }
    Err(refused(hold, round, poll, gone).await)
}

/// Hears the next node and notes if it no longer has the lock; what the round stands at, `None` after the last.
async fn hear(round: &mut Round, poll: &mut Poll<'_>, gone: &mut Vec<usize>) -> Option<Verdict> {
    let (node, reply) = round.next().await?;
    if matches!(reply, Reply::Denied(Denied::Gone)) {
        gone.push(node);
    }
    Some(poll.count(node, &reply))
}

/// Hears the remaining nodes to tell "lost" from "unreachable".
async fn refused(hold: &Hold, mut round: Round, mut poll: Poll<'_>, mut gone: Vec<usize>) -> ExtendError {
    while hear(&mut round, &mut poll, &mut gone).await.is_some() {}
    if poll.tally.denied_by_answers() {
        return hold.lose(Loss::Taken).into();
    }
    // The lease stands, so nobody else can have a majority: the next round may count on them. If no node has it, somebody may
    // have let it go by force.
    if poll.tally.yes() > 0 {
        gone.into_iter().for_each(|node| refill(hold, node));
    }
    hold.note_failure();
    let (answered, left) = (poll.tally.yes(), hold.time_left());
    let (lock, quorum) = (hold.name.clone(), hold.voters.quorum);
    hold.voters.around.emit(&Event::ExtendFailed { name: lock.clone(), left, votes: answered });
    ExtendError::NoQuorum { lock, quorum, answered, nodes: poll.report() }
}

impl Rest {
    /// Hears the remaining nodes and gives the lock to those that do not have it.
    ///
    /// They do not count in this round; the next one asks them like the others.
    pub(crate) async fn top_up(mut self, hold: &Hold) {
        for node in std::mem::take(&mut self.gone) {
            refill(hold, node);
        }
        while let Some((node, reply)) = self.round.next().await {
            hold.voters.hear(node, &reply);
            if matches!(reply, Reply::Denied(Denied::Gone)) {
                refill(hold, node);
            }
        }
    }

    /// The same, on a task of its own.
    pub(crate) fn top_up_later(self, hold: Arc<Hold>) {
        tokio::spawn(async move { self.top_up(&hold).await });
    }
}

fn refill(hold: &Hold, node: usize) {
    if hold.top_up(node) {
        hold.voters.around.emit(&Event::ToppedUp { name: hold.name.clone(), node: hold.voters.id(node) });
    }
}

/// Whether an extend failed for good.
pub(crate) fn is_lost(error: &ExtendError) -> Option<&Lost> {
    match error {
        ExtendError::Lost(lost) => Some(lost),
        _ => None,
    }
}
