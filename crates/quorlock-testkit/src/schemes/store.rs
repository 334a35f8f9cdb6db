//! A simulated server: keys with expiry, versions for WATCH, and a replica that lags behind.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

/// A key.
pub(crate) type Key = &'static str;

/// What clients may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    SetNx(Key, u64),
    SetNxPx(Key, u64, Duration),
    Expire(Key, Duration),
    Read(Key),
    GetSet(Key, u64),
    Del(Key),
    CompareDel(Key, u64),
    /// WATCH and GET.
    Watch(Key),
    /// MULTI, SET, EXEC: done only if the key still has the version that was watched.
    Exec(Key, u64, u64),
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Command::SetNx(..) => "SETNX",
            Command::SetNxPx(..) => "SET NX PX",
            Command::Expire(..) => "EXPIRE",
            Command::Read(_) => "GET",
            Command::GetSet(..) => "GETSET",
            Command::Del(_) => "DEL",
            Command::CompareDel(..) => "compare-and-delete",
            Command::Watch(_) => "WATCH",
            Command::Exec(..) => "EXEC",
        })
    }
}

/// What the server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Done,
    Denied,
    Value(Option<u64>),
    Watched {
        value: u64,
        version: u64,
    },
    /// No server answers.
    Down,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    value: u64,
    expires: Option<Duration>,
}

type Keys = BTreeMap<Key, Entry>;

/// The server that takes commands, and its replica. Times are since the world began.
#[derive(Debug, Default)]
pub(crate) struct Store {
    keys: Keys,
    versions: BTreeMap<Key, u64>,
    is_down: bool,
    replica: Keys,
    /// Writes on their way to the replica, with the time of their arrival.
    underway: VecDeque<(Duration, Key, Option<Entry>)>,
    /// When keys expired, since last asked.
    expired: Vec<(Duration, Key)>,
}

impl Store {
    /// Executes `command`. What it writes reaches the replica after `lag`, in the order of writing.
    pub(crate) fn execute(&mut self, now: Duration, command: Command, lag: Duration) -> Reply {
        if self.is_down {
            return Reply::Down;
        }
        let (Command::SetNx(key, _)
        | Command::SetNxPx(key, ..)
        | Command::Expire(key, _)
        | Command::Read(key)
        | Command::GetSet(key, _)
        | Command::Del(key)
        | Command::CompareDel(key, _)
        | Command::Watch(key)
        | Command::Exec(key, ..)) = command;
        let found = self.find(now, key);
        let stored = found.map(|entry| entry.value);
        let version = self.versions.get(key).copied().unwrap_or_default();
        let (write, reply) = match command {
            Command::Read(_) => return Reply::Value(stored),
            Command::Watch(_) => return Reply::Watched { value: stored.unwrap_or_default(), version },
            Command::SetNx(..) | Command::SetNxPx(..) if found.is_some() => return Reply::Denied,
            Command::CompareDel(_, value) if stored != Some(value) => return Reply::Denied,
            Command::Exec(_, watched, _) if watched != version => return Reply::Denied,
            Command::Expire(..) | Command::Del(_) if found.is_none() => return Reply::Denied,
            Command::SetNx(_, value) | Command::Exec(_, _, value) => {
                (Some(Entry { value, expires: None }), Reply::Done)
            }
            Command::SetNxPx(_, value, ttl) => (Some(Entry { value, expires: Some(now + ttl) }), Reply::Done),
            Command::Expire(_, ttl) => {
                (found.map(|entry| Entry { expires: Some(now + ttl), ..entry }), Reply::Done)
            }
            Command::GetSet(_, value) => (Some(Entry { value, expires: None }), Reply::Value(stored)),
            Command::Del(_) | Command::CompareDel(..) => (None, Reply::Done),
        };
        self.write(now, key, write, lag);
        reply
    }

    /// What is stored under `key`, as the server sees it.
    pub(crate) fn value(&mut self, now: Duration, key: Key) -> Option<u64> {
        self.find(now, key).map(|entry| entry.value)
    }

    /// Keys that expired since the last call, and when.
    pub(crate) fn expired(&mut self) -> Vec<(Duration, Key)> {
        std::mem::take(&mut self.expired)
    }

    /// The master dies; the replica keeps what had arrived. How many writes were lost.
    pub(crate) fn die(&mut self, now: Duration) -> usize {
        self.is_down = true;
        while let Some((at, key, entry)) = self.underway.pop_front() {
            if at > now {
                // Arrival keeps the order of writing: nothing behind this one has arrived either.
                let lost = self.underway.len() + 1;
                self.underway.clear();
                return lost;
            }
            put(&mut self.replica, key, entry);
        }
        0
    }

    /// The replica becomes the master, and gets a replica of its own.
    pub(crate) fn promote(&mut self) {
        self.is_down = false;
        self.keys = self.replica.clone();
    }

    fn find(&mut self, now: Duration, key: Key) -> Option<Entry> {
        let entry = *self.keys.get(key)?;
        if let Some(at) = entry.expires.filter(|at| *at <= now) {
            self.keys.remove(key);
            self.expired.push((at, key));
            return None;
        }
        Some(entry)
    }

    fn write(&mut self, now: Duration, key: Key, entry: Option<Entry>, lag: Duration) {
        put(&mut self.keys, key, entry);
        *self.versions.entry(key).or_default() += 1;
        let before = self.underway.back().map_or(Duration::ZERO, |(at, ..)| *at);
        self.underway.push_back((before.max(now + lag), key, entry));
        while self.underway.front().is_some_and(|(at, ..)| *at <= now) {
            if let Some((_, key, entry)) = self.underway.pop_front() {
                put(&mut self.replica, key, entry);
            }
        }
    }
}

fn put(keys: &mut Keys, key: Key, entry: Option<Entry>) {
    match entry {
        Some(entry) => keys.insert(key, entry),
        None => keys.remove(key),
    };
}
