//! What can happen to a server.

use crate::simulator::redis_server::admission::Revoked;
use crate::simulator::redis_server::commands::Script;
use crate::simulator::redis_server::keyspace::{DATABASES, Keyspace};
use crate::simulator::redis_server::{OWN_KEYS, RedisServer};
use quorlock::Moment;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The condition of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) is_replica: bool,
    /// Whether this run was a replica before.
    pub(super) was_replica: bool,
    pub(super) out_of_memory: bool,
    pub(super) loading: bool,
    pub(super) busy: bool,
    /// The append-only file is being rewritten.
    pub(super) rewriting: bool,
    /// Of the default user.
    pub(super) password: Option<String>,
    pub(super) revoked: Revoked,
    /// How many replicas follow.
    pub(super) replicas: usize,
    pub(super) started: Moment,
}

/// The memory of a machine at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    keyspace: Keyspace,
    scripts: BTreeMap<Arc<str>, Script>,
    run_id: String,
    last_connection: u64,
    started: Moment,
}

impl RedisServer {
    /// A crash and a start on everything that was written.
    pub fn restart(&mut self) {
        self.close_all();
        self.scripts.clear();
        self.state.was_replica = false;
        self.state.loading = false;
        self.state.busy = false;
        self.last_connection = 0;
        self.begin_run();
    }

    /// A crash and a start on nothing.
    pub fn restart_empty(&mut self) {
        self.keyspace.lose();
        self.restart();
    }

    /// A crash and a start on what was written before `moment`: the end of the append-only file is lost.
    /// Only what was written in the last 3 s can be lost.
    pub fn restart_without_writes_since(&mut self, moment: Moment) {
        self.keyspace.undo_since(moment);
        self.restart();
    }

    /// A replica takes over the address. It has what the server had `lag` ago.
    pub fn fail_over(&mut self, lag: Duration) {
        let moment = self.clock.now() - lag;
        self.restart_without_writes_since(moment);
        self.state.is_replica = false;
        self.state.was_replica = true;
    }

    /// Records the machine as it is.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            keyspace: self.keyspace.clone(),
            scripts: self.scripts.clone(),
            run_id: self.run_id.clone(),
            last_connection: self.last_connection,
            started: self.state.started,
        }
    }

    /// The machine returns to a snapshot: data, run id and the number of connections. All connections
    /// end; take them with [`take_closed`](Self::take_closed) before one of their ids is used again.
    pub fn revert(&mut self, snapshot: &Snapshot) {
        self.close_all();
        self.keyspace = snapshot.keyspace.clone();
        self.scripts = snapshot.scripts.clone();
        self.run_id.clone_from(&snapshot.run_id);
        self.last_connection = snapshot.last_connection;
        self.state.started = snapshot.started;
    }

    /// Deletes everything, as `FLUSHALL` does.
    pub fn flush_all(&mut self) {
        let now = self.read_now();
        self.keyspace.clear(now);
    }

    /// Deletes one key that is no key of quorlock's own, so that only names vanish, as a server does whose memory is full. `number`
    /// decides which. Returns the database and the key, `None` if there is no such key.
    pub fn evict(&mut self, number: u64) -> Option<(usize, Vec<u8>)> {
        let keys = |server: &Self, database: usize| {
            let keys = server.keyspace.entries(database).map(|(key, _)| key.to_vec());
            keys.filter(|key| !key.starts_with(OWN_KEYS)).map(|key| (database, key)).collect::<Vec<_>>()
        };
        let names: Vec<_> = (0..DATABASES).flat_map(|database| keys(self, database)).collect();
        let count = u64::try_from(names.len()).ok().filter(|count| *count > 0)?;
        let (database, key) = names.into_iter().nth(usize::try_from(number % count).ok()?)?;
        self.drop_key(database, &key);
        Some((database, key))
    }

    /// Deletes one key. `false` if there is none.
    pub fn drop_key(&mut self, database: usize, key: &[u8]) -> bool {
        let now = self.read_now();
        database < DATABASES && self.keyspace.remove(database, key, now)
    }

    /// Follows another server from now on: it refuses writes. It keeps its data.
    pub fn become_replica(&mut self) {
        self.state.is_replica = true;
    }

    /// Accepts writes from now on.
    pub fn become_primary(&mut self) {
        self.state.was_replica |= self.state.is_replica;
        self.state.is_replica = false;
    }

    /// Whether `maxmemory` is reached and nothing can be evicted.
    pub fn set_out_of_memory(&mut self, out_of_memory: bool) {
        self.state.out_of_memory = out_of_memory;
        self.set_config("maxmemory", if out_of_memory { "1500000" } else { "0" });
    }

    /// Whether the server is still loading its data.
    pub fn set_loading(&mut self, loading: bool) {
        self.state.loading = loading;
    }

    /// Whether a script of another client runs for too long.
    pub fn set_busy(&mut self, busy: bool) {
        self.state.busy = busy;
    }

    /// Whether the append-only file is being rewritten.
    pub fn set_rewriting(&mut self, rewriting: bool) {
        self.state.rewriting = rewriting;
    }

    /// How many replicas follow.
    pub fn set_replicas(&mut self, replicas: usize) {
        self.state.replicas = replicas;
    }

    /// Forgets all scripts.
    pub fn flush_scripts(&mut self) {
        self.scripts.clear();
    }

    /// The password of the default user; `None` if it needs none. Clients that have logged in stay so.
    pub fn set_password(&mut self, password: Option<&str>) {
        self.state.password = password.map(str::to_owned);
    }

    /// Takes away the right to a command, such as `set` or `script|load`.
    pub fn revoke_command(&mut self, name: &str) {
        self.state.revoked.commands.push(name.to_ascii_lowercase());
    }

    /// Takes away the right to the keys that match a pattern.
    pub fn revoke_keys(&mut self, pattern: &str) {
        self.state.revoked.keys.push(pattern.to_owned());
    }

    /// Takes away the right to the channels that match a pattern.
    pub fn revoke_channels(&mut self, pattern: &str) {
        self.state.revoked.channels.push(pattern.to_owned());
    }

    /// Gives all rights back.
    pub fn grant_all(&mut self) {
        self.state.revoked = Revoked::default();
    }

    /// Changes a setting that `CONFIG GET` and `INFO` report, such as `appendonly` or `appendfsync`.
    pub fn set_config(&mut self, name: &str, value: &str) {
        self.settings.insert(name.to_owned(), value.to_owned());
    }

    /// Ends all connections. What was not taken of their output is lost.
    fn close_all(&mut self) {
        self.closed.extend(std::mem::take(&mut self.connections).into_keys());
        self.channels.clear();
        self.unsent.clear();
    }

    /// Draws the id of a new run.
    pub(super) fn begin_run(&mut self) {
        let digits: String = (0..3).map(|_| format!("{:016x}", self.rng.draw())).collect();
        self.run_id = digits[..40].to_owned();
        self.state.started = self.clock.now();
    }
}
