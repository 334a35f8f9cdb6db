//! What a handshake needs and what it finds out about a server.

use crate::context::Context;
use crate::node::FastRelease;
use crate::node::redis::link::epoch::Reading;
use crate::node::redis::protocol::scripts::Hashes;
use quorlock_core::{Moment, Wall};
use std::sync::Arc;

/// What is needed to log in.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: u32,
    pub(crate) durable: bool,
}

/// What a handshake found out.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) version: Arc<str>,
    pub(crate) hashes: Hashes,
    /// The server's own compare-and-delete command, if it has one.
    pub(crate) fast: Option<FastRelease>,
    /// `None` if the restart guard is off.
    pub(crate) reading: Option<Reading>,
    /// The server's clock.
    pub(crate) clock: ServerClock,
    /// How many replicas follow the server.
    pub(crate) replicas: u64,
    /// This connection.
    pub(crate) connection: ConnectionId,
}

/// What a server's wall clock showed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerClock {
    pub(crate) there: Wall,
    /// When it showed that, by our boot clock, to within half a round trip.
    pub(crate) at: Moment,
    /// How far it was ahead of our wall clock, in microseconds.
    pub(crate) ahead_micros: i64,
}

impl ServerClock {
    /// A server's clock that showed `there` after `before` and by now.
    pub(crate) fn read(there: Wall, before: (Wall, Moment), ctx: &Context) -> Self {
        let after = (ctx.clock.wall(), ctx.clock.now());
        Self {
            there,
            at: before.1 + after.1.since(before.1) / 2,
            ahead_micros: ahead(there, before.0, after.0),
        }
    }
}

/// How far a clock that showed `there` was ahead of ours, which went from `before` to `after` in the
/// meantime.
pub(crate) fn ahead(there: Wall, before: Wall, after: Wall) -> i64 {
    let here = before.as_micros() / 2 + after.as_micros() / 2;
    i64::try_from(i128::from(there.as_micros()) - i128::from(here)).unwrap_or(i64::MAX)
}

/// One connection as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionId {
    pub(crate) run_id: String,
    /// The server's number for the connection.
    pub(crate) client: Option<u64>,
}

impl ConnectionId {
    /// Whether the server went back to a state before `last`: it numbers connections upwards as long as
    /// it runs, so a number that is not above an earlier one belongs to a copy of its memory, as when a
    /// virtual machine returns to a snapshot.
    pub(crate) fn is_reverted(&self, last: &ConnectionId) -> bool {
        self.run_id == last.run_id
            && matches!((self.client, last.client), (Some(this), Some(last)) if this <= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(run_id: &str, client: u64) -> ConnectionId {
        ConnectionId { run_id: run_id.to_owned(), client: Some(client) }
    }

    #[test]
    fn a_connection_number_that_goes_back_within_a_run_shows_a_server_that_was_reverted() {
        assert!(connection("a", 7).is_reverted(&connection("a", 9)));
        assert!(connection("a", 9).is_reverted(&connection("a", 9)));
        assert!(!connection("a", 10).is_reverted(&connection("a", 9)));
        assert!(!connection("b", 7).is_reverted(&connection("a", 9)), "another run counts anew");
        assert!(!ConnectionId { run_id: "a".to_owned(), client: None }.is_reverted(&connection("a", 9)));
    }
}
