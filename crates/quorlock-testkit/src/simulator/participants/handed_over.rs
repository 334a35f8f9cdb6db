//! Locks that one client hands over to another, as plain data.

use quorlock::{LockHandle, Mode, NameSet, Token};
use std::collections::BTreeMap;

/// A lock that a client handed over.
#[derive(Debug)]
pub(crate) enum HandedOver {
    /// To be adopted.
    Handle(LockHandle),
    /// To be extended and released by its token.
    Token(GivenToken),
}

/// What the client that gets a token must know of its lock.
#[derive(Debug)]
pub(crate) struct GivenToken {
    pub(crate) names: NameSet,
    pub(crate) mode: Mode,
    pub(crate) token: Token,
    pub(crate) fence: u64,
}

/// The locks handed over to each client. A client accepts one at a time.
#[derive(Debug, Default)]
pub(crate) struct HandedOverLocks(BTreeMap<usize, Vec<HandedOver>>);

impl HandedOverLocks {
    pub(crate) fn send(&mut self, to: usize, handed_over: HandedOver) {
        self.0.entry(to).or_default().push(handed_over);
    }

    pub(crate) fn receive(&mut self, client: usize) -> Option<HandedOver> {
        let waiting = self.0.get_mut(&client)?;
        (!waiting.is_empty()).then(|| waiting.remove(0))
    }
}
