//! Whether a node can vote, and if not, why.

use crate::settings::Settings;
use quorlock::node::{DatabaseFacts, Facts, NodeError, Purpose, ServerFacts, StoreFacts};
use quorlock::{NodeExamination, RestartGuard};
use std::time::Duration;

/// Whether a node can vote.
#[derive(Clone, Debug)]
pub(crate) enum NodeState {
    Votes,
    /// It is new or has forgotten, and no client has connected since: the next client begins its
    /// quarantine.
    NoEpoch,
    /// It may not vote yet.
    Quarantined {
        left: Duration,
    },
    /// Our user lacks a permission that a node needs.
    Denied,
    /// It answers, but cannot be a node as it is configured.
    Refused(NodeError),
    /// It does not answer.
    Silent(NodeError),
}

impl NodeState {
    pub(crate) fn of(examination: &NodeExamination, guard: RestartGuard) -> Self {
        match &examination.found {
            Err(error) => NodeState::Silent(error.clone()),
            Ok(Facts::Server(facts)) => Self::of_server(facts, guard),
            Ok(Facts::Store(facts)) => Self::of_store(facts),
            Ok(Facts::Database(facts)) => Self::of_database(facts),
            Ok(_) => NodeState::Votes,
        }
    }

    fn of_server(facts: &ServerFacts, guard: RestartGuard) -> Self {
        let is_guarded = guard != RestartGuard::Off;
        if let Some(cause) = &facts.refusal {
            return NodeState::Refused(cause.clone());
        }
        let is_denied = facts.denied.iter().any(|denial| match denial.purpose {
            Purpose::Locking => true,
            Purpose::RestartGuard => is_guarded,
            _ => false,
        });
        match &facts.epoch {
            _ if is_denied => NodeState::Denied,
            _ if !is_guarded => NodeState::Votes,
            None => NodeState::NoEpoch,
            Some(epoch) if epoch.quarantine.is_zero() => NodeState::Votes,
            Some(epoch) => NodeState::Quarantined { left: epoch.quarantine },
        }
    }

    fn of_store(facts: &StoreFacts) -> Self {
        let message = facts.errors.join(", ").into();
        match facts.errors.iter().any(|error| error.contains("NOSPACE")) {
            true => NodeState::Refused(NodeError::OutOfMemory { message }),
            false if !facts.errors.is_empty() => NodeState::Refused(NodeError::Server { message }),
            false if !facts.has_leader => {
                NodeState::Refused(NodeError::Server { message: "no member leads".into() })
            }
            false => NodeState::Votes,
        }
    }

    fn of_database(facts: &DatabaseFacts) -> Self {
        match (&facts.refusal, &facts.epoch) {
            (Some(cause), _) => NodeState::Refused(cause.clone()),
            // Its tables and functions are missing or old.
            (None, None) => NodeState::NoEpoch,
            (None, Some(epoch)) if epoch.quarantine.is_zero() => NodeState::Votes,
            (None, Some(epoch)) => NodeState::Quarantined { left: epoch.quarantine },
        }
    }

    pub(crate) fn can_vote(&self) -> bool {
        matches!(self, NodeState::Votes)
    }

    /// A stable word for programs.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            NodeState::Votes => "votes",
            NodeState::NoEpoch => "no_epoch",
            NodeState::Quarantined { .. } => "quarantined",
            NodeState::Denied => "denied",
            NodeState::Refused(_) => "refused",
            NodeState::Silent(_) => "silent",
        }
    }
}

/// The restart guard of these settings, or the default for their number of nodes.
pub(crate) fn restart_guard(settings: &Settings) -> RestartGuard {
    let default = if settings.nodes.value.len() > 1 { RestartGuard::Strict } else { RestartGuard::Off };
    settings.restart_guard.value.unwrap_or(default)
}
