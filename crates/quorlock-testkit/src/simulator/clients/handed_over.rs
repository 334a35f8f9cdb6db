//! Locks on their way from one client to another, as plain data.

use quorlock::{LockHandle, Name, Token};
use std::collections::BTreeMap;

/// A lock that a client gave away.
#[derive(Debug)]
pub(crate) enum HandedOver {
    /// To be adopted.
    Handle(LockHandle),
    /// To be extended and released by its token.
    Token { name: Name, token: Token, fence: u64 },
}

/// What waits for each client. A client picks up one at a time.
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
