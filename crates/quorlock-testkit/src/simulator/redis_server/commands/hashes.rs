//! Commands on the fields of hashes.

use super::{Answer, Caller};
use crate::simulator::redis_server::RedisServer;
use crate::simulator::redis_server::keyspace::Value;
use crate::simulator::redis_server::resp::Reply;

impl RedisServer {
    pub(super) fn hget(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        self.check_type(caller, words[1], "hash")?;
        let field = match self.entry(caller, words[1]).map(|entry| &entry.value) {
            Some(Value::Hash(fields)) => fields.get(words[2]),
            _ => None,
        };
        Ok(field.map_or(Reply::Null, Reply::bulk))
    }

    pub(super) fn hdel(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        self.check_type(caller, words[1], "hash")?;
        self.remove_parts(caller, words, |value, field| match value {
            Value::Hash(fields) => (fields.remove(field).is_some(), fields.is_empty()),
            _ => (false, false),
        })
    }
}
