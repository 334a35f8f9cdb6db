//! The network: byte streams between client processes and servers.
//!
//! Bytes travel in segments, which keep their order and may be late, split, held up, repeated or
//! lost with their connection.

pub(crate) mod connection;
mod flow;
pub(crate) mod network_conditions;
pub(crate) mod stream;
pub(crate) mod traffic;

use crate::rng::Rng;
use crate::simulator::event_queue::EventQueue;
use crate::simulator::server::Host;
use connection::{Closed, Connection, Segment};
use flow::Way;
use network_conditions::NetworkConditions;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::ReadBuf;
use tokio::time::{Instant, sleep_until};
use traffic::Traffic;

/// A released lock that is still stored after this long without any fault was not released.
const RELEASED_WITHIN: Duration = Duration::from_secs(1);
/// How long after a reply its repetition comes at the latest.
const REPEATED_WITHIN: Duration = Duration::from_millis(10);

/// The path from one client process to one server, with all its connections. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Path(Arc<Shared>);

struct Shared {
    client: usize,
    node: usize,
    /// Which process of the client it belongs to.
    incarnation: u64,
    host: Host,
    events: EventQueue,
    traffic: Traffic,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    conditions: NetworkConditions,
    connections: BTreeMap<u64, Connection>,
    /// How many connections there were.
    count: u64,
    /// The machine of the client is paused: nothing leaves or reaches it.
    paused_until: Option<Instant>,
    /// The process is gone.
    is_dead: bool,
    /// Since when no fault disturbs this path.
    undisturbed_since: Instant,
    /// Whether a reply ever came twice.
    has_repeats: bool,
}

impl Path {
    /// The path of a process, given by its client and incarnation, to a server.
    pub(crate) fn new(
        (client, incarnation): (usize, u64),
        (node, host): (usize, Host),
        world: (&EventQueue, &Traffic),
        rng: Rng,
    ) -> Self {
        let state = State {
            rng,
            conditions: NetworkConditions::HEALTHY,
            connections: BTreeMap::new(),
            count: 0,
            paused_until: None,
            is_dead: false,
            undisturbed_since: Instant::now(),
            has_repeats: false,
        };
        let (events, traffic) = (world.0.clone(), world.1.clone());
        Self(Arc::new(Shared { client, node, incarnation, host, events, traffic, state: Mutex::new(state) }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    pub(crate) fn client(&self) -> usize {
        self.0.client
    }

    /// The number of the server.
    pub(crate) fn node(&self) -> usize {
        self.0.node
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.0.incarnation
    }

    /// Whether a reply ever came twice.
    pub(crate) fn has_repeats(&self) -> bool {
        self.state().has_repeats
    }

    pub(crate) fn conditions(&self) -> NetworkConditions {
        self.state().conditions
    }

    pub(crate) fn set_conditions(&self, conditions: NetworkConditions) {
        let held_up: Vec<(u64, bool)> = {
            let mut state = self.state();
            state.conditions = conditions;
            state.undisturbed_since = state.undisturbed_since.max(Instant::now());
            let state = &mut *state;
            for connection in state.connections.values_mut() {
                connection.wake();
            }
            let is_held_up = |connection: &Connection| {
                connection.is_silent || !connection.requests.is_empty() || !connection.replies.is_empty()
            };
            let held_up = state.connections.iter().filter(|(_, connection)| is_held_up(connection));
            // What was held up passes now, or its connection did not survive.
            held_up.map(|(number, held_up)| (*number, held_up.is_silent || state.rng.chance(50))).collect()
        };
        for (number, is_broken) in held_up {
            if is_broken && conditions.is_healthy() {
                self.cut_connection(number);
            } else {
                self.flow_both_ways(number);
            }
        }
    }

    /// Whether the server should have released by now what this process does not use since `idle_since`.
    pub(crate) fn should_be_gone(&self, idle_since: Instant, server_undisturbed: Instant) -> bool {
        let since = server_undisturbed.max(idle_since);
        let is_due = Instant::now().saturating_duration_since(since) > RELEASED_WITHIN;
        is_due && self.is_connected_for(RELEASED_WITHIN) && !self.state().is_dead
    }

    /// Whether nothing has disturbed the path and its connection for at least `span`.
    pub(crate) fn is_connected_for(&self, span: Duration) -> bool {
        let state = self.state();
        let Some((_, connection)) = state.connections.last_key_value() else { return false };
        let is_usable =
            connection.closed.is_none() && connection.dropped_at.is_none() && !connection.is_silent;
        let since = state.undisturbed_since.max(connection.since);
        is_usable && state.conditions.is_healthy() && Instant::now().saturating_duration_since(since) >= span
    }

    /// Holds everything up until `until`.
    pub(crate) fn pause(&self, until: Instant) {
        let numbers: Vec<u64> = {
            let mut state = self.state();
            state.paused_until = Some(until);
            state.undisturbed_since = state.undisturbed_since.max(until);
            state.connections.keys().copied().collect()
        };
        let path = self.clone();
        self.0.events.schedule(until, move || {
            numbers.into_iter().for_each(|number| path.flow_both_ways(number));
        });
    }

    /// The process of the client died.
    pub(crate) fn kill(&self) {
        self.state().is_dead = true;
        self.cut();
    }

    /// Breaks all connections. What is on its way may still arrive, in part.
    pub(crate) fn cut(&self) {
        let numbers: Vec<u64> = self.state().connections.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.cut_connection(number));
    }

    fn cut_connection(&self, number: u64) {
        {
            let mut state = self.state();
            state.undisturbed_since = state.undisturbed_since.max(Instant::now());
            let State { connections, rng, .. } = &mut *state;
            let Some(connection) = connections.get_mut(&number) else { return };
            connection.requests.cut(rng, Segment::End);
            connection.replies.cut(rng, Segment::Reset);
            connection.is_silent = false;
        }
        self.schedule_flow(number, Way::ToServer);
        self.schedule_flow(number, Way::ToClient);
    }

    /// The server lost the connection with the number `server_side`. The client learns of it at once, or
    /// when it sends something.
    pub(crate) fn lost_by_server(&self, server_side: u64, is_reported: bool) {
        let number = {
            let mut state = self.state();
            state.undisturbed_since = state.undisturbed_since.max(Instant::now());
            let State { connections, rng, .. } = &mut *state;
            let found = connections.iter_mut().find(|(_, it)| it.server_side == Some(server_side));
            let Some((number, connection)) = found else { return };
            connection.server_side = None;
            if is_reported {
                connection.replies.cut(rng, Segment::Reset);
            }
            *number
        };
        self.schedule_flow(number, Way::ToClient);
    }

    /// Opens a connection; returns its number.
    pub(crate) async fn connect(&self) -> io::Result<u64> {
        let (arrives, passes) = {
            let mut state = self.state();
            (state.arrival(), !state.conditions.no_requests && !state.conditions.no_replies)
        };
        if self.state().is_dead {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        }
        if !passes {
            // The caller gives up.
            std::future::pending::<()>().await;
        }
        sleep_until(arrives).await;
        let mut server = self.0.host.lock();
        if !server.is_up {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let mut state = self.state();
        state.count += 1;
        let number = state.count;
        let server_side = server.connect(self.clone(), number);
        state.connections.insert(number, Connection::new(server_side));
        Ok(number)
    }

    /// The client drops its end.
    pub(crate) fn close(&self, number: u64) {
        {
            let mut state = self.state();
            let arrives = state.arrival();
            let Some(connection) = state.connections.get_mut(&number) else { return };
            connection.dropped_at = Some(Instant::now());
            connection.requests.send(arrives, Segment::End);
        }
        self.schedule_flow(number, Way::ToServer);
    }

    pub(crate) fn poll_write(
        &self,
        number: u64,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let (count, again) = {
            let mut state = self.state();
            let conditions = state.conditions;
            let arrives = state.arrival();
            let State { connections, rng, .. } = &mut *state;
            let Some(connection) = connections.get_mut(&number) else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            if connection.closed.is_some() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if conditions.is_full {
                connection.writer = Some(context.waker().clone());
                return Poll::Pending;
            }
            let count = if rng.chance(conditions.splits) { part(rng, bytes.len()) } else { bytes.len() };
            let written = &bytes[..count];
            let again = rng.chance(conditions.duplicates).then(|| {
                let later = arrives + rng.span(conditions.delay.0, conditions.delay.1 * 50);
                (later, written.to_vec())
            });
            connection.requests.send(arrives, Segment::Bytes(written.to_vec()));
            self.0.traffic.count(written);
            (count, again)
        };
        self.schedule_flow(number, Way::ToServer);
        if let Some((later, bytes)) = again {
            let host = self.0.host.clone();
            self.0.events.schedule(later, move || host.replay(&bytes));
        }
        Poll::Ready(Ok(count))
    }

    pub(crate) fn poll_read(
        &self,
        number: u64,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state();
        let State { connections, rng, conditions, .. } = &mut *state;
        let Some(connection) = connections.get_mut(&number) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if !connection.inbox.is_empty() {
            let most = connection.inbox.len().min(buffer.remaining());
            let count = if rng.chance(conditions.splits) { part(rng, most) } else { most };
            let bytes = &connection.inbox.make_contiguous()[..count];
            buffer.put_slice(bytes);
            self.0.traffic.count(bytes);
            connection.inbox.drain(..count);
            return Poll::Ready(Ok(()));
        }
        match connection.closed {
            Some(Closed::ByServer) => Poll::Ready(Ok(())),
            Some(Closed::Broken) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            None => {
                connection.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Sends what the server answered, or that it closed the connection.
    pub(crate) fn send_reply(&self, number: u64, segment: Segment) {
        {
            let mut state = self.state();
            let arrives = state.arrival();
            let State { connections, rng, conditions, has_repeats, .. } = &mut *state;
            let Some(connection) = connections.get_mut(&number) else { return };
            if connection.is_silent {
                return;
            }
            match segment {
                Segment::Bytes(mut bytes) if rng.chance(conditions.half_replies) => {
                    bytes.truncate(part(rng, bytes.len()) - 1);
                    connection.replies.send(arrives, Segment::Bytes(bytes));
                    connection.is_silent = true;
                }
                segment => {
                    connection.replies.send(arrives, segment.clone());
                    if rng.chance(conditions.repeats) {
                        *has_repeats = true;
                        // Perhaps while the client waits for the reply to its next command.
                        connection.replies.send(arrives + rng.span(Duration::ZERO, REPEATED_WITHIN), segment);
                    }
                }
            }
        }
        self.schedule_flow(number, Way::ToClient);
    }
}

impl State {
    /// When a segment arrives that is sent now.
    fn arrival(&mut self) -> Instant {
        let (low, high) = self.conditions.delay;
        let leaves = self.paused_until.filter(|until| *until > Instant::now()).unwrap_or_else(Instant::now);
        leaves + self.rng.span(low, high)
    }

    fn is_held_up(&self, way: Way) -> bool {
        let is_paused = self.paused_until.is_some_and(|until| until > Instant::now());
        is_paused
            || match way {
                Way::ToServer => self.conditions.no_requests,
                Way::ToClient => self.conditions.no_replies,
            }
    }
}

/// At least one byte of `length`, and mostly not all.
fn part(rng: &mut Rng, length: usize) -> usize {
    1 + usize::try_from(rng.below((length as u64).max(1))).unwrap()
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} process {}", self.0.client, self.0.incarnation)
    }
}
