//! Why an acquire call gave up: the last attempt, or the clients that hold what it wanted.

use crate::acquire::Acquirer;
use crate::acquire::attempt::Cause;
use crate::acquire::slots::SlotsError;
use crate::context::event::GaveUpReason;
use crate::error::{AcquireError, HeldName, Holder, NodeOutcome};
use crate::inspect::{Answers, InspectError, Inspection, inspect_all};
use crate::quorum::Nodes;
use quorlock_core::{Mode, NameSet};
use tokio::time::timeout;

impl Acquirer<'_> {
    /// The error of the call: from the last attempt, or from an inspection if there was none.
    pub(super) async fn reason(&mut self) -> AcquireError {
        let lock = self.subject();
        match self.retry_state.as_mut().and_then(|retry_state| retry_state.last_refusal.take()) {
            Some(refusal) if refusal.cause == Cause::NoQuorum => AcquireError::NoQuorum {
                lock,
                quorum: self.nodes.quorum,
                answered: refusal.votes + refusal.denied,
                nodes: refusal.nodes,
            },
            Some(refusal) if refusal.cause == Cause::TooSlow => {
                AcquireError::TooSlow { lock, took: refusal.took, ttl: self.params.options.ttl.span() }
            }
            last => self.held_or_unreachable(last.is_some()).await,
        }
    }

    /// Inspects the lock to choose the error. `was_refused`: nodes that could vote refused the last attempt.
    async fn held_or_unreachable(&mut self, was_refused: bool) -> AcquireError {
        let (lock, quorum) = (self.subject(), self.nodes.quorum);
        if self.slots.is_some() {
            return self.full_or_unreachable().await;
        }
        // The rest of the time limit bounds this last inspection, too.
        let inspection = inspect_all(self.nodes, &self.params.names, Answers::Majority);
        let found = match timeout(self.grace(), inspection).await {
            Ok(Ok(found)) => Some(found),
            Ok(Err(InspectError { nodes, .. })) => {
                let answered =
                    nodes.iter().filter(|report| matches!(report.outcome, NodeOutcome::Yes)).count();
                return AcquireError::NoQuorum { lock, quorum, answered, nodes };
            }
            Err(_) => self.retry_state.as_mut().and_then(|retry_state| retry_state.last_inspection.take()),
        };
        let waited = self.waited();
        match found {
            Some(found) if found.iter().any(Inspection::is_held) => self.held(found),
            Some(_) => AcquireError::Contended { lock, attempts: self.attempts, waited },
            None if was_refused => AcquireError::Held { lock, holder: Holder::Unknown, left: None, waited },
            None => AcquireError::NoQuorum { lock, quorum, answered: 0, nodes: self.nodes.troubles() },
        }
    }

    /// The error that names each holder.
    fn held(&self, found: Vec<Inspection>) -> AcquireError {
        let (lock, waited) = (self.subject(), self.waited());
        let is_shared = self.params.mode == Mode::Shared;
        let held = found.into_iter().filter(Inspection::is_held).map(|found| HeldName {
            name: found.name,
            // Readers keep no reader out: a client that waits to write does.
            holder: match found.holder {
                Holder::Shared { .. } if is_shared => Holder::Waiting,
                holder => holder,
            },
            left: found.left,
        });
        let mut held: Vec<HeldName> = held.collect();
        if lock.is_single() && held.len() == 1 {
            let HeldName { holder, left, .. } = held.remove(0);
            return AcquireError::Held { lock, holder, left, waited };
        }
        AcquireError::NamesHeld { lock, held, waited }
    }

    /// Looks at the slots to choose the error.
    async fn full_or_unreachable(&mut self) -> AcquireError {
        let (lock, limit, waited) = (self.subject(), self.grace(), self.waited());
        let (nodes, attempts) = (self.nodes, self.attempts);
        let Some(slots) = &mut self.slots else {
            return AcquireError::Contended { lock, attempts, waited };
        };
        match timeout(limit, slots.look(nodes)).await {
            Ok(Ok(true)) => AcquireError::Contended { lock, attempts, waited },
            Ok(Err(error)) => slots_error(lock, nodes, error),
            Ok(Ok(false)) | Err(_) => AcquireError::NoPermit { lock, slots: slots.count(), waited },
        }
    }
}

/// Why no slot of `semaphore` could be chosen.
pub(super) fn slots_error(semaphore: NameSet, nodes: &Nodes, error: SlotsError) -> AcquireError {
    let (lock, quorum) = (semaphore, nodes.quorum);
    match error {
        SlotsError::NoQuorum { answered, nodes } => AcquireError::NoQuorum { lock, quorum, answered, nodes },
        SlotsError::Differ { recorded } => AcquireError::SlotsDiffer { lock, recorded },
    }
}

pub(super) fn gave_up_reason(error: &AcquireError) -> GaveUpReason {
    match error {
        AcquireError::Held { .. } | AcquireError::NamesHeld { .. } | AcquireError::NoPermit { .. } => {
            GaveUpReason::Held
        }
        AcquireError::SlotsDiffer { .. } => GaveUpReason::Config,
        AcquireError::Contended { .. } => GaveUpReason::Contended,
        AcquireError::NoQuorum { .. } => GaveUpReason::NoQuorum,
        AcquireError::TooSlow { .. } => GaveUpReason::TooSlow,
        AcquireError::Cancelled { .. } => GaveUpReason::Cancelled,
        AcquireError::TooManyWaiters { .. } => GaveUpReason::TooManyWaiters,
        AcquireError::Config { .. } => GaveUpReason::Config,
    }
}
