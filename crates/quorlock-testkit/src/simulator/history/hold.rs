//! One client's hold of a lock, as the checker sees it.

use crate::simulator::machine_clock::MachineClock;
use quorlock::{Clock, Lease, LeaseState, Mode, Moment, Name, NameSet, Token};
use std::sync::Arc;
use std::time::Duration;

/// One client's hold of one name, or of several together.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) client: usize,
    pub(crate) claim: Claim,
    /// When its token was granted, to this client or to the one that handed it over.
    pub(crate) granted: Duration,
    /// When it must be over at the latest, however often it was extended.
    pub(crate) latest_end: Option<Duration>,
    pub(crate) was_lost: bool,
}

/// How the client has the lock.
#[derive(Debug)]
pub(crate) enum Claim {
    /// A guard, which ends with its process.
    Guarded(Lease),
    /// A token, which does not.
    ByToken(TokenLease),
}

/// A lock of which its client knows only the token, and until when it is held for sure.
#[derive(Clone, Debug)]
pub(crate) struct TokenLease {
    pub(crate) names: NameSet,
    pub(crate) mode: Mode,
    pub(crate) token: Token,
    pub(crate) fence: u64,
    /// The clock of the client's machine.
    pub(crate) clock: Arc<MachineClock>,
    pub(crate) deadline: Moment,
}

impl TokenLease {
    pub(crate) fn is_held(&self) -> bool {
        self.clock.now() < self.deadline
    }
}

impl Hold {
    pub(crate) fn names(&self) -> &[Name] {
        match &self.claim {
            Claim::Guarded(held) => held.names(),
            Claim::ByToken(lease) => lease.names.as_slice(),
        }
    }

    fn mode(&self) -> Mode {
        match &self.claim {
            Claim::Guarded(held) => held.mode(),
            Claim::ByToken(lease) => lease.mode,
        }
    }

    /// The names that both cannot hold at the same moment.
    pub(crate) fn contested_with<'a>(&'a self, other: &'a Hold) -> impl Iterator<Item = &'a Name> {
        let is_common = |name: &&Name| other.names().contains(name);
        self.names().iter().filter(is_common).filter(|_| self.mode().conflicts_with(other.mode()))
    }

    pub(crate) fn token(&self) -> Token {
        match &self.claim {
            Claim::Guarded(held) => held.token(),
            Claim::ByToken(lease) => lease.token,
        }
    }

    pub(crate) fn fence(&self) -> u64 {
        match &self.claim {
            Claim::Guarded(held) => held.fence().get(),
            Claim::ByToken(lease) => lease.fence,
        }
    }

    /// How long it is held for sure, by the clock of its machine.
    pub(crate) fn remaining(&self) -> Duration {
        match &self.claim {
            Claim::Guarded(held) => held.remaining(),
            Claim::ByToken(lease) => lease.clock.now().until(lease.deadline),
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        match &self.claim {
            Claim::Guarded(held) => held.is_held(),
            Claim::ByToken(lease) => lease.is_held(),
        }
    }

    /// Whether it is over for good. A lease by token may be extended while the nodes still have it.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(&self.claim, Claim::Guarded(held) if matches!(held.state(), LeaseState::Lost(_)))
    }

    pub(crate) fn ends_with_its_process(&self) -> bool {
        matches!(self.claim, Claim::Guarded(_))
    }
}
