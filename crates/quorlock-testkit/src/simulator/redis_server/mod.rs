//! A simulated Redis or Valkey server: bytes in, bytes out, and its own clock.
//!
//! It speaks RESP and runs scripts in a real Lua 5.1, so the shipped link talks to it as to a real
//! server. `tests/redis_server.rs` compares both byte by byte.
//!
//! # Layout
//! | module | job |
//! |---|---|
//! | `resp`, `numbers` | the protocol, and the form of numbers in it |
//! | `keyspace` | what is stored, and how the last changes are lost |
//! | `command_table`, `admission` | the known commands, and what is refused before they are executed |
//! | `commands` | what each command does |
//! | `lua` | the interpreter of scripts |
//! | `faults` | what can happen to a server |
//! | `shared_holders` | the shared holders that are stored |

mod admission;
mod command_table;
mod commands;
mod faults;
mod keyspace;
mod lua;
mod numbers;
mod resp;
mod shared_holders;

pub use faults::Snapshot;
pub use keyspace::{Origin, OriginCommand};
pub use shared_holders::StoredReader;

use crate::rng::Rng;
use commands::{Caller, Replacement, Script};
use faults::State;
use keyspace::{DATABASES, Keyspace, Now, Value, is_over};
use quorlock::Clock;
use quorlock_core::Wall;
use resp::{Protocol, Reply, Request, read_request};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// What no client can choose as a name: the keys of quorlock itself.
const OWN_KEYS: &[u8] = b"quorlock:";

/// Which server program it is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Redis 6.2, the oldest that quorlock supports.
    Redis62,
    /// Redis 7.0.
    Redis7,
    /// Redis 8.4, which has `DELEX`.
    Redis84,
    /// Valkey 9, which has `DELIFEQ`.
    Valkey9,
}

impl Version {
    fn is_valkey(self) -> bool {
        self == Version::Valkey9
    }

    /// Its name in texts for people.
    fn title(self) -> &'static str {
        if self.is_valkey() { "Valkey" } else { "Redis" }
    }

    /// Doubles have as few digits as needed, and a client gets the reply to its own command before a
    /// message that the command sent to itself.
    fn is_after_redis_7_0(self) -> bool {
        matches!(self, Version::Redis84 | Version::Valkey9)
    }
}

/// One server. Time passes for it only while a command is received.
#[derive(Debug)]
pub struct RedisServer {
    version: Version,
    clock: Arc<dyn Clock>,
    rng: Rng,
    run_id: String,
    now: Now,
    keyspace: Keyspace,
    connections: BTreeMap<u64, Client>,
    last_connection: u64,
    channels: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    /// By their hashes.
    scripts: BTreeMap<Arc<str>, Script>,
    replacements: Vec<Replacement>,
    settings: BTreeMap<String, String>,
    state: State,
    closed: Vec<u64>,
    /// The connection whose command is executed, and what it gets after the reply.
    current: Option<u64>,
    deferred: Vec<u8>,
    /// The connection that is closed once the reply to its command is written.
    to_close: Option<u64>,
    /// What was written to connections before the server closed them.
    unsent: BTreeMap<u64, Vec<u8>>,
}

/// A text that a server stores.
#[derive(Clone, Copy, Debug)]
pub struct StoredText<'a> {
    /// The number of its database.
    pub database: usize,
    /// Where it is stored.
    pub key: &'a [u8],
    /// What is stored.
    pub value: &'a [u8],
    /// When it vanishes, on the server's wall clock.
    pub expires: Option<Wall>,
    /// The write that created the key.
    pub origin: &'a Origin,
}

/// One connection, as the server sees it.
#[derive(Debug)]
struct Client {
    input: Vec<u8>,
    output: Vec<u8>,
    protocol: Protocol,
    database: usize,
    name: String,
    logged_in: bool,
    channels: BTreeSet<Vec<u8>>,
}

impl RedisServer {
    /// An empty server whose time is that of `clock`. The seed decides the ids of its runs.
    pub fn new(version: Version, clock: Arc<dyn Clock>, seed: u64) -> Self {
        let keyspace = Keyspace::default();
        let mut server = Self { rng: Rng::new(seed), keyspace, ..Self::absent(version, clock) };
        for (name, value) in [
            ("appendfsync", "everysec"),
            ("appendonly", "no"),
            ("maxmemory", "0"),
            ("maxmemory-policy", "noeviction"),
            ("no-appendfsync-on-rewrite", "no"),
            ("save", ""),
        ] {
            server.set_config(name, value);
        }
        server.begin_run();
        server
    }

    /// What takes the place of a server while a script has it. It allocates nothing.
    fn absent(version: Version, clock: Arc<dyn Clock>) -> Self {
        Self {
            version,
            clock,
            rng: Rng::new(0),
            run_id: String::new(),
            now: Now::default(),
            keyspace: Keyspace::absent(),
            connections: BTreeMap::new(),
            last_connection: 0,
            channels: BTreeMap::new(),
            scripts: BTreeMap::new(),
            replacements: Vec::new(),
            settings: BTreeMap::new(),
            state: State::default(),
            closed: Vec::new(),
            current: None,
            deferred: Vec::new(),
            to_close: None,
            unsent: BTreeMap::new(),
        }
    }

    /// Accepts a connection. Its id is higher than that of all before it in this run.
    pub fn connect(&mut self) -> u64 {
        self.last_connection += 1;
        let client = Client {
            input: Vec::new(),
            output: Vec::new(),
            protocol: Protocol::Resp2,
            database: 0,
            name: String::new(),
            logged_in: self.state.password.is_none(),
            channels: BTreeSet::new(),
        };
        self.connections.insert(self.last_connection, client);
        self.last_connection
    }

    /// The client closed the connection. Does nothing if the server did before.
    pub fn disconnect(&mut self, connection: u64) {
        if let Some(client) = self.connections.remove(&connection) {
            for channel in client.channels {
                self.remove_subscriber(connection, &channel);
            }
        }
    }

    /// Executes every whole command that has arrived, in the order of arrival. Bytes for a connection
    /// that does not exist are lost.
    pub fn receive(&mut self, connection: u64, bytes: &[u8]) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        let mut input = std::mem::take(&mut client.input);
        input.extend_from_slice(bytes);
        let (mut at, mut ranges) = (0, Vec::new());
        while self.connections.contains_key(&connection) {
            match self.execute_first(connection, &input[at..], &mut ranges) {
                0 => break,
                length => at += length,
            }
        }
        if let Some(client) = self.connections.get_mut(&connection) {
            input.drain(..at);
            client.input = input;
        }
    }

    /// Executes the first command of `input`; returns its length, 0 if it is not whole.
    fn execute_first(&mut self, connection: u64, input: &[u8], ranges: &mut Vec<Range<usize>>) -> usize {
        match read_request(input, ranges, self.version) {
            Request::Incomplete => 0,
            Request::Whole(length) => {
                let words: Vec<&[u8]> = ranges.iter().map(|range| &input[range.clone()]).collect();
                self.execute(connection, &words);
                length
            }
            Request::Inline(length, words) => {
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                self.execute(connection, &words);
                length
            }
            Request::Broken(error) => {
                self.reply(connection, &Reply::Error(error.into()));
                self.close(connection);
                0
            }
        }
    }

    /// Takes the bytes for a client that were not taken yet. What the server wrote before it closed a
    /// connection can still be taken, once.
    pub fn take_output(&mut self, connection: u64) -> Vec<u8> {
        match self.connections.get_mut(&connection) {
            Some(client) => std::mem::take(&mut client.output),
            None => self.unsent.remove(&connection).unwrap_or_default(),
        }
    }

    /// The connections for which there are bytes to take, in the order of their ids.
    pub fn connections_with_output(&self) -> impl Iterator<Item = u64> + use<> {
        let open = self.connections.iter().filter(|(_, client)| !client.output.is_empty()).map(|(id, _)| *id);
        let mut all: Vec<u64> = open.collect();
        if !self.unsent.is_empty() {
            all.extend(self.unsent.keys());
            all.sort_unstable();
        }
        all.into_iter()
    }

    /// Takes the connections that the server closed by itself since this was last called.
    pub fn take_closed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.closed)
    }

    /// The texts that the server stores and whose time is not over, in the order of their keys.
    pub fn stored_texts(&self) -> impl Iterator<Item = StoredText<'_>> {
        let now = self.read_now();
        let entries = (0..DATABASES).flat_map(|database| {
            self.keyspace.entries(database).map(move |(key, entry)| (database, key, entry))
        });
        entries.filter(move |(_, _, entry)| !is_over(entry.expires, now)).filter_map(
            |(database, key, entry)| {
                let Value::Text(value) = &entry.value else { return None };
                let expires = entry.expires.map(|millis| Wall::from_micros(millis.saturating_mul(1_000)));
                Some(StoredText { database, key, value, expires, origin: &entry.origin })
            },
        )
    }

    /// The fence counter of a lock, if the server has one.
    pub fn fence_counter(&self, database: usize, name: &str) -> Option<f64> {
        let key = format!("quorlock:fence:{{{name}}}");
        let entry = self.keyspace.peek(database, key.as_bytes())?;
        match &entry.value {
            Value::SortedSet(scores) if !is_over(entry.expires, self.read_now()) => {
                scores.get(b"f".as_slice()).copied()
            }
            _ => None,
        }
    }

    /// The id of this run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    fn execute(&mut self, connection: u64, words: &[&[u8]]) {
        let Some(client) = self.connections.get(&connection) else { return };
        if words.is_empty() {
            return;
        }
        let mut caller =
            Caller { connection, database: client.database, protocol: client.protocol, script: None };
        self.now = self.read_now();
        self.current = Some(connection);
        let reply = match self.admit(&caller, words) {
            Ok(spec) => self.run(&mut caller, spec, words),
            Err(refusal) => refusal,
        };
        self.current = None;
        self.reply(connection, &reply);
        let deferred = std::mem::take(&mut self.deferred);
        if let Some(client) = self.connections.get_mut(&connection) {
            client.output.extend_from_slice(&deferred);
        }
        if self.to_close.take() == Some(connection) {
            self.close(connection);
        }
    }

    /// Writes to one client.
    fn reply(&mut self, connection: u64, reply: &Reply) {
        let version = self.version;
        if let Some(client) = self.connections.get_mut(&connection) {
            reply.write(&mut client.output, client.protocol, version);
        }
    }

    /// Closes a connection from the side of the server.
    fn close(&mut self, connection: u64) {
        if let Some(client) = self.connections.get_mut(&connection) {
            let output = std::mem::take(&mut client.output);
            if !output.is_empty() {
                self.unsent.insert(connection, output);
            }
            self.disconnect(connection);
            self.closed.push(connection);
        }
    }

    fn read_now(&self) -> Now {
        let wall = Wall::from(self.clock.wall_time());
        Now { wall_micros: wall.as_micros(), boot: self.clock.now() }
    }
}
