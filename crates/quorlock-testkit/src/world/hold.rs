//! One client's right to a lock, as the record judges it.

use super::time::MachineClock;
use quorlock::{Clock, Lease, LeaseState, Moment, Name, Token};
use std::sync::Arc;
use std::time::Duration;

/// One client's hold of one name.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) client: usize,
    pub(super) right: Right,
    /// When its token was granted, to this client or to the one that gave it away.
    pub(super) granted: Duration,
    /// When it must be over at the latest, however often it was extended.
    pub(super) ends: Option<Duration>,
    pub(super) was_lost: bool,
}

/// What the client knows its right by.
#[derive(Debug)]
pub(super) enum Right {
    /// A guard, which ends with its process.
    Guarded(Lease),
    /// A token, which does not.
    ByToken(TokenLease),
}

/// A lock of which its client knows only the token, and until when it is held for sure.
#[derive(Clone, Debug)]
pub(super) struct TokenLease {
    pub(super) name: Name,
    pub(super) token: Token,
    pub(super) fence: u64,
    /// The clock of the client's machine.
    pub(super) clock: Arc<MachineClock>,
    pub(super) deadline: Moment,
}

impl TokenLease {
    pub(super) fn is_held(&self) -> bool {
        self.clock.now() < self.deadline
    }
}

impl Hold {
    pub(super) fn name(&self) -> &Name {
        match &self.right {
            Right::Guarded(held) => held.name(),
            Right::ByToken(lease) => &lease.name,
        }
    }

    pub(super) fn token(&self) -> Token {
        match &self.right {
            Right::Guarded(held) => held.token(),
            Right::ByToken(lease) => lease.token,
        }
    }

    pub(super) fn fence(&self) -> u64 {
        match &self.right {
            Right::Guarded(held) => held.fence().get(),
            Right::ByToken(lease) => lease.fence,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        match &self.right {
            Right::Guarded(held) => held.is_held(),
            Right::ByToken(lease) => lease.is_held(),
        }
    }

    /// Whether it is over for good. A lease by token may be extended while the nodes still have it.
    pub(super) fn is_lost(&self) -> bool {
        matches!(&self.right, Right::Guarded(held) if matches!(held.state(), LeaseState::Lost(_)))
    }

    pub(super) fn ends_with_its_process(&self) -> bool {
        matches!(self.right, Right::Guarded(_))
    }
}
