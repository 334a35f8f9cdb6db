//! Locks on their way from one client to another, as plain data.

use quorlock::{LockHandle, Name, Token};
use std::collections::BTreeMap;

/// A lock that a client gave away.
#[derive(Debug)]
pub(super) enum Parcel {
    /// To be adopted.
    Handle(LockHandle),
    /// To be extended and released by its token.
    Token { name: Name, token: Token, fence: u64 },
}

/// What waits for each client. A client picks up one at a time.
#[derive(Debug, Default)]
pub(super) struct Parcels(BTreeMap<usize, Vec<Parcel>>);

impl Parcels {
    pub(super) fn send(&mut self, to: usize, parcel: Parcel) {
        self.0.entry(to).or_default().push(parcel);
    }

    pub(super) fn receive(&mut self, client: usize) -> Option<Parcel> {
        let waiting = self.0.get_mut(&client)?;
        (!waiting.is_empty()).then(|| waiting.remove(0))
    }
}
