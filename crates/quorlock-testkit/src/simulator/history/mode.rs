//! The history of modes: exclusive holds that become shared, and shared ones that become exclusive.

use crate::simulator::history::{Granted, History, listed};
use quorlock::Lease;
use std::time::Duration;

impl History {
    /// The client shares its lock from now on.
    pub(crate) fn downgraded(&mut self, client: usize, now: Duration, held: &Lease) {
        self.uses.downgrades += 1;
        let fence = held.fence().get();
        self.record(now, &format!("client {client} shares {} from now on", listed(held.names())));
        for name in held.names() {
            self.recorder.downgraded(client, name, fence);
        }
        self.check(now);
    }

    /// The client was granted exclusively what it shared with the fence `before`: an acquisition of its own.
    pub(crate) fn upgraded(
        &mut self,
        client: usize,
        (called, now): (Duration, Duration),
        before: u64,
        held: &Lease,
    ) {
        self.acquisitions += 1;
        self.uses.upgrades += 1;
        let (token, fence) = (held.token(), held.fence().get());
        let names = listed(held.names());
        self.record(now, &format!("client {client} holds {names} alone from now on, with fence {fence}"));
        self.check_fences((called, now), held);
        self.recorder.upgraded((client, token), called, held.names(), (before, fence));
        self.grants.insert(token, Granted { at: now, fence });
        for hold in self.holds.iter_mut().filter(|hold| hold.client == client && hold.token() == token) {
            hold.granted = now;
        }
        self.check(now);
    }
}
