//! The arrival of segments at servers and clients.

use crate::simulator::network::Path;
use crate::simulator::network::connection::{Closed, Segment};
use std::time::Duration;

/// A vote that arrives this long after its client gave the connection up may come after the last try to
/// release it. It stays for its ttl.
const LATE: Duration = Duration::from_secs(2);

/// One of the two directions of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    ToServer,
    ToClient,
}

impl Path {
    /// Lets segments of a connection arrive when the last one is due.
    pub(super) fn schedule_flow(&self, number: u64, way: Way) {
        let at = {
            let state = self.state();
            let Some(connection) = state.connections.get(&number) else { return };
            match way {
                Way::ToServer => connection.requests.last_arrival(),
                Way::ToClient => connection.replies.last_arrival(),
            }
        };
        let path = self.clone();
        self.0.events.schedule(at, move || path.flow(number, way));
    }

    pub(super) fn flow_both_ways(&self, number: u64) {
        self.flow(number, Way::ToServer);
        self.flow(number, Way::ToClient);
    }

    /// Lets everything arrive that is due and not held up.
    fn flow(&self, number: u64, way: Way) {
        while let Some(segment) = self.next_arrival(number, way) {
            match way {
                Way::ToServer => self.arrive_at_server(number, segment),
                Way::ToClient => self.arrive_at_client(number, segment),
            }
        }
    }

    fn next_arrival(&self, number: u64, way: Way) -> Option<Segment> {
        let mut state = self.state();
        if state.is_held_up(way) {
            return None;
        }
        let connection = state.connections.get_mut(&number)?;
        match way {
            Way::ToServer => connection.requests.arrived(),
            Way::ToClient => connection.replies.arrived(),
        }
    }

    fn arrive_at_server(&self, number: u64, segment: Segment) {
        let server_side = {
            let mut state = self.state();
            let Some(connection) = state.connections.get_mut(&number) else { return };
            let server_side = connection.server_side;
            if let Some(server_side) = server_side
                && connection.dropped_at.is_some_and(|at| at.elapsed() > LATE)
            {
                self.0.host.lock().set_late(server_side);
            }
            if matches!(segment, Segment::End | Segment::Reset) {
                connection.server_side = None;
            }
            if connection.is_over() {
                state.connections.remove(&number);
            }
            server_side
        };
        if let Segment::Bytes(bytes) = &segment {
            let (client, node) = (self.0.client, self.0.node);
            self.0
                .traffic
                .record(format_args!("server {node}, from client {client} ({server_side:?}),"), bytes);
        }
        match (server_side, segment) {
            (Some(server_side), Segment::Bytes(bytes)) => self.0.host.receive(server_side, bytes),
            (Some(server_side), Segment::End | Segment::Reset) => self.0.host.disconnect(server_side),
            // A server that does not know the connection refuses what comes over it.
            (None, Segment::Bytes(_)) if self.0.host.lock().is_up => {
                self.send_reply(number, Segment::Reset);
            }
            (None, _) => {}
        }
    }

    fn arrive_at_client(&self, number: u64, segment: Segment) {
        let mut state = self.state();
        let Some(connection) = state.connections.get_mut(&number) else { return };
        if connection.closed.is_some() {
            return;
        }
        match segment {
            Segment::Bytes(bytes) => {
                let (client, node) = (self.0.client, self.0.node);
                let whom =
                    format_args!("client {client}, from server {node} ({:?}),", connection.server_side);
                self.0.traffic.record(whom, &bytes);
                connection.inbox.extend(bytes);
            }
            Segment::End => connection.closed = Some(Closed::ByServer),
            Segment::Reset => connection.closed = Some(Closed::Broken),
        }
        connection.wake();
    }
}
