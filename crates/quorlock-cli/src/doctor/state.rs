//! Whether a node can vote, and if not, why.

use crate::settings::Settings;
use quorlock::node::{Facts, NodeError, Purpose, ServerFacts, StoreFacts};
use quorlock::{Examination, RestartGuard};
use std::time::Duration;

/// Whether a node can vote.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Votes,
    /// It has forgotten or is new, and nobody has looked at it since: the next client begins its quarantine.
    Unmarked,
    /// It may not vote yet.
    Quarantined {
        left: Duration,
    },
    /// It lacks a permission without which it is no node.
    Denied,
    /// It can be asked, but cannot be a node as it is.
    Refused(NodeError),
    /// It cannot be asked.
    Silent(NodeError),
}

impl State {
    pub(crate) fn of(examination: &Examination, guard: RestartGuard) -> Self {
        match &examination.found {
            Err(error) => State::Silent(error.clone()),
            Ok(Facts::Server(facts)) => Self::of_server(facts, guard),
            Ok(Facts::Store(facts)) => Self::of_store(facts),
            Ok(_) => State::Votes,
        }
    }

    fn of_server(facts: &ServerFacts, guard: RestartGuard) -> Self {
        let is_guarded = guard != RestartGuard::Off;
        if let Some(cause) = &facts.refusal {
            return State::Refused(cause.clone());
        }
        let is_denied = facts.denied.iter().any(|denial| match denial.purpose {
            Purpose::Locking => true,
            Purpose::RestartGuard => is_guarded,
            _ => false,
        });
        match &facts.epoch {
            _ if is_denied => State::Denied,
            _ if !is_guarded => State::Votes,
            None => State::Unmarked,
            Some(epoch) if epoch.quarantine.is_zero() => State::Votes,
            Some(epoch) => State::Quarantined { left: epoch.quarantine },
        }
    }

    fn of_store(facts: &StoreFacts) -> Self {
        let message = facts.errors.join(", ").into();
        match facts.errors.iter().any(|error| error.contains("NOSPACE")) {
            true => State::Refused(NodeError::OutOfMemory { message }),
            false if !facts.errors.is_empty() => State::Refused(NodeError::Server { message }),
            false if !facts.has_leader => {
                State::Refused(NodeError::Server { message: "no member leads".into() })
            }
            false => State::Votes,
        }
    }

    pub(crate) fn votes(&self) -> bool {
        matches!(self, State::Votes)
    }

    /// A stable word for programs.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            State::Votes => "votes",
            State::Unmarked => "unmarked",
            State::Quarantined { .. } => "quarantined",
            State::Denied => "denied",
            State::Refused(_) => "refused",
            State::Silent(_) => "silent",
        }
    }
}

/// The restart guard that holds for these settings.
pub(crate) fn guard(settings: &Settings) -> RestartGuard {
    let default = if settings.nodes.value.len() > 1 { RestartGuard::Strict } else { RestartGuard::Off };
    settings.restart_guard.value.unwrap_or(default)
}
