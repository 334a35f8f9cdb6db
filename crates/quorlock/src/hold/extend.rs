//! One round to extend a held lock, and the repair of nodes that do not have it.

use crate::context::event::Event;
use crate::context::injected_bug::{InjectedBug, InjectedBugs};
use crate::context::trace;
use crate::error::{ExtendError, Lost};
use crate::hold::HeldLock;
use crate::node::{Denied, Done, Reply};
use crate::quorum::round::Round;
use crate::quorum::votes::Votes;
use quorlock_core::{LeaseState, LossReason, Ttl, Verdict};
use std::pin::Pin;
use std::sync::Arc;
use tracing::Instrument;

/// Nodes that had not answered, or did not have the lock, when a majority had extended it.
#[derive(Debug)]
#[must_use = "nodes that lost the lock must get it back"]
pub(crate) struct Stragglers {
    round: Pin<Box<Round>>,
    missing_on: Vec<usize>,
}

/// Asks all nodes to extend; returns as soon as a majority has.
///
/// A failed round changes nothing: the old deadline stays, and nothing is deleted. Only a majority of
/// nodes that answer that the lock is not there, or the end of its time, loses it.
///
/// # Cancel safety
/// Cancel safe: the nodes may have extended, the deadline is then the old one.
pub(crate) async fn extend(hold: &HeldLock, ttl: Ttl) -> Result<Stragglers, ExtendError> {
    extend_round(hold, ttl).instrument(trace::extending(&hold.names)).await
}

async fn extend_round(hold: &HeldLock, ttl: Ttl) -> Result<Stragglers, ExtendError> {
    let ctx = &hold.nodes().ctx;
    let left = match hold.state() {
        LeaseState::Lost(reason) => return Err(hold.lose(reason).into()),
        LeaseState::Held { left } => left,
        LeaseState::Unverified => hold.time_left(),
    };
    let read_clocks = || (ctx.clock.now(), ctx.clock.wall());
    let start = read_clocks();
    let mut votes = Votes::new(hold.nodes());
    let mut round = Box::pin(hold.ask_to_extend(ttl));
    let mut missing_on = Vec::new();
    while votes.verdict() == Verdict::Pending {
        record_next(&mut round, &mut votes, &mut missing_on, ctx.injected).await;
    }
    if votes.verdict() == Verdict::Granted {
        let start = ctx.injected.lease_start(start, read_clocks);
        hold.confirm(ttl, start, votes.yes()).map_err(|reason| hold.lose(reason))?;
        let votes = votes.yes();
        ctx.emit_each(&hold.names, |name| Event::Extended { name, left, votes });
        return Ok(Stragglers { round, missing_on });
    }
    Err(refused(hold, round, votes, missing_on).await)
}

/// Records the next reply, and whether its node no longer has the lock; `false` after the last.
async fn record_next(
    round: &mut Pin<Box<Round>>,
    votes: &mut Votes<'_>,
    missing_on: &mut Vec<usize>,
    injected: InjectedBugs,
) -> bool {
    let Some((node, reply)) = round.as_mut().next().await else { return false };
    let is_gone = matches!(reply, Reply::Denied(Denied::Gone));
    if is_gone {
        missing_on.push(node);
    }
    let is_counted = is_gone && injected.is_on(InjectedBug::RepairCounts);
    votes.record(node, if is_counted { &Reply::Done(Done::Plain) } else { &reply });
    true
}

/// Waits for the remaining nodes, to distinguish "lost" from "unreachable".
async fn refused(
    hold: &HeldLock,
    mut round: Pin<Box<Round>>,
    mut votes: Votes<'_>,
    mut missing_on: Vec<usize>,
) -> ExtendError {
    let injected = hold.nodes().ctx.injected;
    while record_next(&mut round, &mut votes, &mut missing_on, injected).await {}
    if votes.is_denied() {
        return hold.lose(LossReason::Taken).into();
    }
    // The lease is valid, so no other client can have a majority: the next round may count on these
    // nodes. If no node has the lock, an operator may have released it by force.
    if votes.yes() > 0 {
        missing_on.into_iter().for_each(|node| repair(hold, node));
    }
    hold.extend_failed();
    let (answered, left) = (votes.yes(), hold.time_left());
    let (lock, quorum) = (hold.names.clone(), hold.nodes().quorum);
    hold.nodes().ctx.emit_each(&lock, |name| Event::ExtendFailed { name, left, votes: answered });
    ExtendError::NoQuorum { lock, quorum, answered, nodes: votes.into_report() }
}

impl Stragglers {
    /// Waits for the remaining nodes and gives the lock to those that do not have it.
    ///
    /// They do not count in this round; the next one asks them like the others.
    pub(crate) async fn repair(mut self, hold: &HeldLock) {
        for node in std::mem::take(&mut self.missing_on) {
            repair(hold, node);
        }
        while let Some((node, reply)) = self.round.as_mut().next().await {
            hold.nodes().outcome_of(node, &reply);
            if matches!(reply, Reply::Denied(Denied::Gone)) {
                repair(hold, node);
            }
        }
    }

    /// The same, on a task of its own.
    pub(crate) fn repair_later(self, hold: Arc<HeldLock>) {
        tokio::spawn(async move { self.repair(&hold).await });
    }
}

fn repair(hold: &HeldLock, node: usize) {
    if hold.repair(node) {
        let node = hold.nodes().id(node);
        hold.nodes().ctx.emit_each(&hold.names, |name| Event::Repaired { name, node: node.clone() });
    }
}

/// Whether an extend failed for good.
pub(crate) fn is_lost(error: &ExtendError) -> Option<&Lost> {
    match error {
        ExtendError::Lost(lost) => Some(lost),
        _ => None,
    }
}
