//! A simulated server's machine: a Redis server in memory, its clock, its connections, and whether it
//! runs.

use crate::rng::Rng;
use crate::simulator::machine_clock::MachineClock;
use crate::simulator::network::Path;
use crate::simulator::network::connection::Segment;
use crate::simulator::redis_server::{RedisServer, StoredReader, StoredText};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::time::Instant;

/// A server's machine as the network reaches it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Host(Arc<Mutex<Server>>);

/// One server.
pub(crate) struct Server {
    pub(crate) redis: RedisServer,
    pub(crate) clock: Arc<MachineClock>,
    pub(crate) is_up: bool,
    /// It accepts bytes but neither executes nor answers them until it resumes.
    pub(crate) is_stopped: bool,
    /// What arrived while it was stopped.
    stalled: Vec<(u64, Segment)>,
    /// Since when it runs without a fault, apart from those that go on.
    undisturbed_since: Instant,
    /// How many faults go on.
    faults: usize,
    /// Who is at the other end of each connection of this run, even if it is closed.
    clients: BTreeMap<u64, (Path, u64)>,
    /// Connections whose bytes arrive long after their clients gave them up.
    late: BTreeSet<u64>,
    /// Values of locks, and tokens of shared ones, that came over connections of earlier runs.
    inherited: BTreeSet<Vec<u8>>,
    /// Tokens of shared holders that came over connections of no client.
    repeated: BTreeSet<Vec<u8>>,
}

/// What a server sends: to which path, over which of its connections.
type Sent = Vec<(Path, u64, Segment)>;

impl Host {
    pub(crate) fn new(redis: RedisServer, clock: Arc<MachineClock>) -> Self {
        Self(Arc::new(Mutex::new(Server {
            redis,
            clock,
            is_up: true,
            is_stopped: false,
            stalled: Vec::new(),
            undisturbed_since: Instant::now(),
            faults: 0,
            clients: BTreeMap::new(),
            late: BTreeSet::new(),
            inherited: BTreeSet::new(),
            repeated: BTreeSet::new(),
        })))
    }

    /// Forgets who is at the other end of its connections, which refer to it.
    pub(crate) fn forget_clients(&self) {
        let clients = std::mem::take(&mut self.lock().clients);
        drop(clients);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Server> {
        self.0.lock().unwrap()
    }

    /// Bytes arrive over a connection.
    pub(crate) fn receive(&self, connection: u64, bytes: Vec<u8>) {
        let sent = self.lock().arrive(connection, Segment::Bytes(bytes));
        send(sent);
    }

    /// The client closed a connection.
    pub(crate) fn disconnect(&self, connection: u64) {
        let sent = self.lock().arrive(connection, Segment::End);
        send(sent);
    }

    /// Executes bytes that the network repeats over a connection of its own, whose replies are lost.
    pub(crate) fn replay(&self, bytes: &[u8]) {
        let sent = {
            let mut server = self.lock();
            if !server.is_up || server.is_stopped {
                return;
            }
            let before = server.reader_tokens();
            let connection = server.redis.connect();
            server.redis.receive(connection, bytes);
            server.redis.disconnect(connection);
            let added = server.reader_tokens().into_iter().filter(|token| !before.contains(token));
            let added: Vec<_> = added.collect();
            server.repeated.extend(added);
            server.outputs()
        };
        send(sent);
    }

    /// Changes the server, and sends what that causes.
    pub(crate) fn change(&self, change: impl FnOnce(&mut RedisServer)) {
        let sent = {
            let mut server = self.lock();
            server.undisturbed_since = Instant::now();
            change(&mut server.redis);
            server.outputs()
        };
        send(sent);
    }

    /// Begins a fault that goes on until [`Host::end_fault`].
    pub(crate) fn begin_fault(&self, change: impl FnOnce(&mut RedisServer)) {
        self.lock().faults += 1;
        self.change(change);
    }

    pub(crate) fn end_fault(&self, change: impl FnOnce(&mut RedisServer)) {
        self.lock().faults -= 1;
        self.change(change);
    }

    /// The server is down from now on. With `is_reported` its clients learn of it at once, as when a
    /// process dies and its kernel does not.
    pub(crate) fn go_down(&self, is_reported: bool) {
        let clients = {
            let mut server = self.lock();
            server.is_up = false;
            server.is_stopped = false;
            server.stalled.clear();
            std::mem::take(&mut server.clients)
        };
        for (connection, (path, _)) in clients {
            path.lost_by_server(connection, is_reported);
        }
    }

    /// The server is up again, after `restart` has changed what it remembers. Does nothing if it is up.
    pub(crate) fn come_up(&self, restart: impl FnOnce(&mut RedisServer)) {
        let mut server = self.lock();
        if server.is_up {
            return;
        }
        restart(&mut server.redis);
        // Their clients know already, and the numbers are used again.
        server.redis.take_closed();
        let inherited = server.redis.stored_texts().map(|stored| stored.value.to_vec());
        let inherited = inherited.chain(server.reader_tokens()).collect();
        server.inherited = inherited;
        server.late.clear();
        server.is_up = true;
        server.undisturbed_since = Instant::now();
    }

    /// Ends a stop: executes what has arrived, in any order of the connections.
    pub(crate) fn resume(&self, rng: &mut Rng) {
        let stalled = {
            let mut server = self.lock();
            server.is_stopped = false;
            server.undisturbed_since = Instant::now();
            std::mem::take(&mut server.stalled)
        };
        let mut connections: BTreeMap<u64, Vec<Segment>> = BTreeMap::new();
        for (connection, segment) in stalled {
            connections.entry(connection).or_default().push(segment);
        }
        let mut order: Vec<_> = connections.into_iter().map(|entry| (rng.draw(), entry)).collect();
        order.sort_by_key(|(place, _)| *place);
        for (connection, segments) in order.into_iter().map(|(_, entry)| entry) {
            for segment in segments {
                let sent = self.lock().arrive(connection, segment);
                send(sent);
            }
        }
    }
}

fn send(sent: Sent) {
    for (path, number, segment) in sent {
        path.send_reply(number, segment);
    }
}

impl Server {
    /// Accepts a connection of a client; returns its number here.
    pub(crate) fn connect(&mut self, path: Path, number: u64) -> u64 {
        let connection = self.redis.connect();
        self.clients.insert(connection, (path, number));
        connection
    }

    /// Since when no fault disturbs it; `None` if one does.
    pub(crate) fn undisturbed_since(&self) -> Option<Instant> {
        let is_disturbed = !self.is_up || self.is_stopped || self.faults > 0;
        (!is_disturbed).then_some(self.undisturbed_since)
    }

    /// The client of this connection has given it up long ago.
    pub(crate) fn set_late(&mut self, connection: u64) {
        self.late.insert(connection);
    }

    /// The client whose vote or repair is stored, if it came in this run and in time.
    pub(crate) fn client_of(&self, stored: &StoredText<'_>) -> Option<&Path> {
        if self.inherited.contains(stored.value) || self.late.contains(&stored.origin.connection) {
            return None;
        }
        self.clients.get(&stored.origin.connection).map(|(path, _)| path)
    }

    /// Whether the vote or repair of a shared holder came in this run, in time, and from its client. `path`
    /// is that of the client.
    pub(crate) fn is_of(&self, stored: &StoredReader<'_>, path: &Path) -> bool {
        let has_late = self
            .late
            .iter()
            .filter_map(|late| self.clients.get(late))
            .any(|(late, _)| (late.client(), late.incarnation()) == (path.client(), path.incarnation()));
        !self.inherited.contains(stored.token) && !self.repeated.contains(stored.token) && !has_late
    }

    fn reader_tokens(&self) -> Vec<Vec<u8>> {
        self.redis.stored_readers().map(|stored| stored.token.to_vec()).collect()
    }

    fn arrive(&mut self, connection: u64, segment: Segment) -> Sent {
        if !self.is_up || !self.clients.contains_key(&connection) {
            return Vec::new();
        }
        if self.is_stopped {
            self.stalled.push((connection, segment));
            return Vec::new();
        }
        match segment {
            Segment::Bytes(bytes) => self.redis.receive(connection, &bytes),
            Segment::End | Segment::Reset => self.redis.disconnect(connection),
        }
        self.outputs()
    }

    /// What the server has to send, to all its clients.
    fn outputs(&mut self) -> Sent {
        let mut sent = Vec::new();
        let ready: Vec<u64> = self.redis.connections_with_output().collect();
        for connection in ready {
            let bytes = self.redis.take_output(connection);
            if let Some((path, number)) = self.clients.get(&connection) {
                sent.push((path.clone(), *number, Segment::Bytes(bytes)));
            }
        }
        for connection in self.redis.take_closed() {
            if let Some((path, number)) = self.clients.get(&connection) {
                sent.push((path.clone(), *number, Segment::End));
            }
        }
        sent
    }
}
