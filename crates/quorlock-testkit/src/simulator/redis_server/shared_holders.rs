//! The shared holders of locks that a server stores.

use crate::simulator::redis_server::keyspace::{DATABASES, Origin, Value, is_over};
use crate::simulator::redis_server::{OWN_KEYS, RedisServer};

/// One shared holder of a lock.
#[derive(Clone, Copy, Debug)]
pub struct StoredReader<'a> {
    /// The lock.
    pub name: &'a [u8],
    /// The holder's token.
    pub token: &'a [u8],
    /// Its fence and its owner, if they are stored.
    pub label: &'a [u8],
    /// The write that created the key. Other holders may have come later.
    pub origin: &'a Origin,
}

impl RedisServer {
    /// The shared holders whose time is not over.
    pub fn stored_readers(&self) -> impl Iterator<Item = StoredReader<'_>> {
        let now = self.read_now();
        let names = (0..DATABASES).flat_map(|database| {
            self.keyspace.entries(database).map(move |(name, entry)| (database, name, entry))
        });
        names
            .filter(move |(_, name, entry)| !name.starts_with(OWN_KEYS) && !is_over(entry.expires, now))
            .filter_map(move |(database, name, entry)| {
                let Value::SortedSet(ends) = &entry.value else { return None };
                Some((database, name, entry, ends))
            })
            .flat_map(move |(database, name, entry, ends)| {
                let labels_key = [b"quorlock:readers:{".as_slice(), name, b"}"].concat();
                let labels = self.keyspace.peek(database, &labels_key).map(|labels| &labels.value);
                ends.iter().filter(move |(_, end)| **end > now.millis() as f64).map(move |(token, _)| {
                    let label = match labels {
                        Some(Value::Hash(labels)) => labels.get(token).map_or(&[][..], Vec::as_slice),
                        _ => &[],
                    };
                    StoredReader { name, token, label, origin: &entry.origin }
                })
            })
    }
}
