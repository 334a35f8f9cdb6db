//! What a server stores, and the log of changes by which it can lose the last of them.

use quorlock::Moment;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// As many databases as a server has without configuration.
pub(super) const DATABASES: usize = 16;
/// How long a change can be undone. No fault loses more than 2 s.
const UNDO_WINDOW: Duration = Duration::from_secs(3);

/// Which write created a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The connection that sent it.
    pub connection: u64,
    /// By which command.
    pub command: OriginCommand,
}

/// The command that created a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginCommand {
    /// A plain `SET` with `NX`, not in a script.
    Set,
    /// The script with this hash.
    Script(Arc<str>),
    /// Any other command.
    Other,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(Vec<u8>),
    SortedSet(BTreeMap<Vec<u8>, f64>),
    List(Vec<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
}

impl Value {
    /// The answer to `TYPE`.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Value::Text(_) => "string",
            Value::SortedSet(_) => "zset",
            Value::List(_) => "list",
            Value::Hash(_) => "hash",
            Value::Set(_) => "set",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// On the wall clock, in milliseconds.
    pub(super) expires: Option<u64>,
    pub(super) origin: Origin,
}

/// The moment of a command. A script has one for all that it calls, as in Redis.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Now {
    pub(super) wall_micros: u64,
    pub(super) boot: Moment,
}

impl Now {
    pub(super) fn millis(self) -> u64 {
        self.wall_micros / 1_000
    }
}

/// All databases of a server.
#[derive(Clone, Debug)]
pub(super) struct Keyspace {
    databases: Vec<BTreeMap<Vec<u8>, Entry>>,
    changes: VecDeque<Change>,
}

/// One change, and what undoes it.
#[derive(Clone, Debug)]
struct Change {
    at: Moment,
    database: usize,
    key: Vec<u8>,
    before: Option<Entry>,
}

impl Default for Keyspace {
    fn default() -> Self {
        Self { databases: vec![BTreeMap::new(); DATABASES], changes: VecDeque::new() }
    }
}

impl Keyspace {
    /// Without any database. It allocates nothing.
    pub(super) fn absent() -> Self {
        Self { databases: Vec::new(), changes: VecDeque::new() }
    }

    /// What is stored under `key`. A key whose time is over is removed first.
    pub(super) fn get(&mut self, database: usize, key: &[u8], now: Now) -> Option<&Entry> {
        let expires = self.databases[database].get(key)?.expires;
        if is_over(expires, now) {
            self.remove(database, key, now);
            return None;
        }
        self.databases[database].get(key)
    }

    /// What is stored under `key`, whether or not its time is over.
    pub(super) fn peek(&self, database: usize, key: &[u8]) -> Option<&Entry> {
        self.databases.get(database)?.get(key)
    }

    /// Stores `entry`. A key that exists keeps its origin.
    pub(super) fn put(&mut self, database: usize, key: &[u8], mut entry: Entry, now: Now) {
        let before = match self.databases[database].get_mut(key) {
            Some(stored) => {
                if !is_over(stored.expires, now) {
                    entry.origin = stored.origin.clone();
                }
                Some(std::mem::replace(stored, entry))
            }
            None => {
                self.databases[database].insert(key.to_vec(), entry);
                None
            }
        };
        self.record(database, key, before, now);
    }

    /// Lets `change` change what is stored under `key`, if anything is.
    pub(super) fn update(&mut self, database: usize, key: &[u8], now: Now, change: impl FnOnce(&mut Entry)) {
        if let Some(stored) = self.databases[database].get_mut(key) {
            let before = stored.clone();
            change(stored);
            self.record(database, key, Some(before), now);
        }
    }

    /// `false` if there was nothing.
    pub(super) fn remove(&mut self, database: usize, key: &[u8], now: Now) -> bool {
        match self.databases[database].remove_entry(key) {
            Some((key, entry)) => {
                self.record(database, &key, Some(entry), now);
                true
            }
            None => false,
        }
    }

    pub(super) fn clear(&mut self, now: Now) {
        for database in 0..DATABASES {
            for (key, entry) in std::mem::take(&mut self.databases[database]) {
                self.record(database, &key, Some(entry), now);
            }
        }
    }

    /// Undoes all changes at and after `moment`, the last first.
    pub(super) fn undo_since(&mut self, moment: Moment) {
        while self.changes.back().is_some_and(|change| change.at >= moment) {
            let Some(change) = self.changes.pop_back() else { return };
            match change.before {
                Some(entry) => self.databases[change.database].insert(change.key, entry),
                None => self.databases[change.database].remove(&change.key),
            };
        }
    }

    /// Forgets everything, and that it ever was.
    pub(super) fn lose(&mut self) {
        *self = Self::default();
    }

    /// The keys of one database with what they store, in order, whether or not their time is over.
    pub(super) fn entries(&self, database: usize) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.databases[database].iter().map(|(key, entry)| (key.as_slice(), entry))
    }

    fn record(&mut self, database: usize, key: &[u8], before: Option<Entry>, now: Now) {
        while self.changes.front().is_some_and(|oldest| oldest.at + UNDO_WINDOW < now.boot) {
            self.changes.pop_front();
        }
        self.changes.push_back(Change { at: now.boot, database, key: key.to_vec(), before });
    }
}

/// A key is gone once the clock is past its expiry, not at it.
pub(super) fn is_over(expires: Option<u64>, now: Now) -> bool {
    expires.is_some_and(|expires| now.millis() > expires)
}

/// Whether `text` matches a pattern of Redis: `*`, `?`, `[a-c]` and `\`.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], _) => text.is_empty(),
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|skip| matches(rest, &text[skip..])),
        (_, []) => false,
        ([b'?', rest @ ..], [_, text @ ..]) => matches(rest, text),
        ([b'[', rest @ ..], [byte, text @ ..]) => {
            let end = rest.iter().position(|byte| *byte == b']').unwrap_or(rest.len());
            let (set, rest) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
            let (negated, set) = set.strip_prefix(b"^").map_or((false, set), |set| (true, set));
            let range = |three: &[u8]| three[1] == b'-' && (three[0]..=three[2]).contains(byte);
            (set.contains(byte) || set.windows(3).any(range)) != negated && matches(rest, text)
        }
        ([b'\\', literal, rest @ ..], [byte, text @ ..]) | ([literal, rest @ ..], [byte, text @ ..]) => {
            literal == byte && matches(rest, text)
        }
    }
}
