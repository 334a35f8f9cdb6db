//! Commands on keys of any type.

use super::{Answer, Caller, SYNTAX, expiry, number, option};
use crate::simulator::redis_server::RedisServer;
use crate::simulator::redis_server::command_table::{Command, Spec};
use crate::simulator::redis_server::keyspace::{is_over, matches};
use crate::simulator::redis_server::resp::Reply;
use std::borrow::Cow;

/// How many keys a `SCAN` visits if it does not say.
const SCAN_COUNT: i64 = 10;
const TYPES: [&str; 6] = ["string", "list", "set", "zset", "hash", "stream"];

/// The conditions of `EXPIRE`.
#[derive(Default)]
struct ExpireOptions {
    if_none: bool,
    if_any: bool,
    if_later: bool,
    if_earlier: bool,
}

impl ExpireOptions {
    fn parse(words: &[&[u8]]) -> Result<Self, Reply> {
        let mut options = Self::default();
        for word in words {
            match option(word).as_slice() {
                b"NX" => options.if_none = true,
                b"XX" => options.if_any = true,
                b"GT" => options.if_later = true,
                b"LT" => options.if_earlier = true,
                _ => {
                    let text = format!("ERR Unsupported option {}", String::from_utf8_lossy(word));
                    return Err(Reply::Error(text.into()));
                }
            }
        }
        if options.if_none && (options.if_any || options.if_later || options.if_earlier) {
            return Err(Reply::error("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if options.if_later && options.if_earlier {
            return Err(Reply::error("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(options)
    }

    fn allow(&self, before: Option<u64>, after: i64) -> bool {
        let before = before.map(|before| i64::try_from(before).unwrap_or(i64::MAX));
        // A key without an expiry lasts longer than any.
        !(self.if_none && before.is_some()
            || self.if_any && before.is_none()
            || self.if_later && before.is_none_or(|before| after <= before)
            || self.if_earlier && before.is_some_and(|before| after >= before))
    }
}

impl RedisServer {
    pub(super) fn del(&mut self, caller: &Caller, words: &[&[u8]]) -> Reply {
        let mut removed = 0;
        for key in &words[1..] {
            removed += i64::from(self.entry(caller, key).is_some() && self.remove(caller, key));
        }
        Reply::Integer(removed)
    }

    pub(super) fn exists(&mut self, caller: &Caller, words: &[&[u8]]) -> Reply {
        Reply::Integer(words[1..].iter().map(|key| i64::from(self.entry(caller, key).is_some())).sum())
    }

    pub(super) fn expire(&mut self, caller: &Caller, spec: &Spec, words: &[&[u8]]) -> Answer {
        let key = words[1];
        let (from, unit) = match spec.command {
            Command::Pexpireat => (0, 1),
            Command::Expire => (self.now.millis(), 1_000),
            _ => (self.now.millis(), 1),
        };
        let options = ExpireOptions::parse(&words[3..])?;
        let when = expiry(from, number(words[2])?, unit);
        let when = when.ok_or_else(|| {
            Reply::Error(format!("ERR invalid expire time in '{}' command", spec.name).into())
        })?;
        let Some(before) = self.entry(caller, key).map(|entry| entry.expires) else {
            return Ok(Reply::Integer(0));
        };
        if !options.allow(before, when) {
            return Ok(Reply::Integer(0));
        }
        match u64::try_from(when).ok().filter(|when| *when > self.now.millis()) {
            Some(when) => self.update(caller, key, |entry| entry.expires = Some(when)),
            None => drop(self.remove(caller, key)),
        }
        Ok(Reply::Integer(1))
    }

    pub(super) fn ttl(&mut self, caller: &Caller, spec: &Spec, words: &[&[u8]]) -> Reply {
        let now = self.now.millis();
        let left = match self.entry(caller, words[1]).map(|entry| entry.expires) {
            None => return Reply::Integer(-2),
            Some(None) => return Reply::Integer(-1),
            Some(Some(expires)) => i64::try_from(expires.saturating_sub(now)).unwrap_or(i64::MAX),
        };
        Reply::Integer(if spec.command == Command::Ttl { (left + 500) / 1_000 } else { left })
    }

    pub(super) fn type_of(&mut self, caller: &Caller, words: &[&[u8]]) -> Reply {
        let name = self.entry(caller, words[1]).map_or("none", |entry| entry.value.type_name());
        Reply::Status(Cow::Borrowed(name))
    }

    /// Visits the keys in the order of a hash, as Redis does, so that a key that exists all the time is
    /// found whatever else changes between two steps.
    pub(super) fn scan(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        let cursor = std::str::from_utf8(words[1]).ok().and_then(|cursor| cursor.parse::<u64>().ok());
        let cursor = cursor.ok_or(Reply::error("ERR invalid cursor"))?;
        let (mut pattern, mut kind, mut count) = (None, None, SCAN_COUNT);
        for pair in words[2..].chunks(2) {
            let value = *pair.get(1).ok_or(SYNTAX)?;
            match option(pair[0]).as_slice() {
                b"MATCH" => pattern = Some(value),
                b"COUNT" => count = Some(number(value)?).filter(|count| *count > 0).ok_or(SYNTAX)?,
                b"TYPE" => kind = Some(self.scan_type(value)?),
                _ => return Err(SYNTAX),
            }
        }
        let now = self.now;
        let mut rest: Vec<_> = self
            .keyspace
            .entries(caller.database)
            .map(|(key, entry)| (position(key), key, entry))
            .filter(|(position, ..)| *position >= cursor)
            .collect();
        rest.sort_by_key(|(position, key, _)| (*position, *key));
        let end = rest.len().min(usize::try_from(count).unwrap_or(usize::MAX));
        let next = rest.get(end).map_or(0, |(position, ..)| *position);
        let found = rest[..end].iter().filter(|(_, key, entry)| {
            !is_over(entry.expires, now)
                && pattern.is_none_or(|pattern| matches(pattern, key))
                && kind.as_ref().is_none_or(|kind| kind == entry.value.type_name())
        });
        let found = found.map(|(_, key, _)| Reply::bulk(key)).collect();
        Ok(Reply::Array(vec![Reply::bulk(next.to_string()), Reply::Array(found)]))
    }

    fn scan_type(&self, name: &[u8]) -> Result<String, Reply> {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        if self.version.is_after_redis_7_0() && !TYPES.contains(&name.as_str()) {
            return Err(Reply::Error(format!("ERR unknown type name '{name}'").into()));
        }
        Ok(name)
    }

    pub(super) fn flushall(&mut self, words: &[&[u8]]) -> Answer {
        match words[1..].iter().map(|word| option(word)).collect::<Vec<_>>().as_slice() {
            [] => {}
            [mode] if matches!(mode.as_slice(), b"SYNC" | b"ASYNC") => {}
            _ => return Err(SYNTAX),
        }
        let now = self.now;
        self.keyspace.clear(now);
        Ok(Reply::OK)
    }
}

/// Where a key is in the order of `SCAN` (FNV-1a). Never 0, which is the start.
fn position(key: &[u8]) -> u64 {
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
}
