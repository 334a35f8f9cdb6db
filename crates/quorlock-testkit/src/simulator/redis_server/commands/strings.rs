//! Commands on texts.

use super::{Answer, Caller, NOT_AN_INTEGER, SYNTAX, WRONG_TYPE, expiry, number, option};
use crate::simulator::redis_server::RedisServer;
use crate::simulator::redis_server::keyspace::{Entry, OriginCommand, Value};
use crate::simulator::redis_server::numbers::integer;
use crate::simulator::redis_server::resp::Reply;

/// The options of `SET`.
#[derive(Default)]
struct SetOptions {
    if_absent: bool,
    if_present: bool,
    keeps_ttl: bool,
    returns_old: bool,
    /// How long, and in how many ms each.
    ttl: Option<(i64, i64)>,
}

impl SetOptions {
    fn parse(words: &[&[u8]]) -> Result<Self, Reply> {
        let mut options = Self::default();
        let mut raw_ttl = None;
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match option(word).as_slice() {
                b"NX" if !options.if_present => options.if_absent = true,
                b"XX" if !options.if_absent => options.if_present = true,
                b"GET" => options.returns_old = true,
                b"KEEPTTL" if raw_ttl.is_none() => options.keeps_ttl = true,
                unit @ (b"EX" | b"PX") if raw_ttl.is_none() && !options.keeps_ttl => {
                    let unit = if unit == b"EX" { 1_000 } else { 1 };
                    raw_ttl = Some((rest.next().ok_or(SYNTAX)?, unit));
                }
                _ => return Err(SYNTAX),
            }
        }
        if let Some((amount, unit)) = raw_ttl {
            options.ttl = Some((number(amount)?, unit));
        }
        Ok(options)
    }

    /// When the key expires.
    fn expires(&self, now_millis: u64) -> Result<Option<u64>, Reply> {
        let Some((amount, unit)) = self.ttl else { return Ok(None) };
        let when = expiry(now_millis, amount, unit).filter(|_| amount > 0);
        let when = when.and_then(|when| u64::try_from(when).ok());
        when.map(Some).ok_or(Reply::error("ERR invalid expire time in 'set' command"))
    }
}

impl RedisServer {
    pub(super) fn set(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        let (key, value) = (words[1], words[2]);
        let options = SetOptions::parse(&words[3..])?;
        let mut expires = options.expires(self.now.millis())?;
        let old = match options.returns_old {
            true => Some(self.text(caller, key)?.map_or(Reply::Null, Reply::bulk)),
            false => None,
        };
        let stored = self.entry(caller, key).map(|entry| entry.expires);
        if (options.if_absent && stored.is_some()) || (options.if_present && stored.is_none()) {
            return Ok(old.unwrap_or(Reply::Null));
        }
        if options.keeps_ttl {
            expires = stored.flatten();
        }
        let plain = if options.if_absent { OriginCommand::Set } else { OriginCommand::Other };
        let entry = Entry { value: Value::Text(value.to_vec()), expires, origin: caller.origin(plain) };
        self.put(caller, key, entry);
        Ok(old.unwrap_or(Reply::OK))
    }

    pub(super) fn get(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        Ok(self.text(caller, words[1])?.map_or(Reply::Null, Reply::bulk))
    }

    pub(super) fn getrange(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        let (start, end) = (number(words[2])?, number(words[3])?);
        let Some(text) = self.text(caller, words[1])? else { return Ok(Reply::bulk("")) };
        let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
        if start < 0 && end < 0 && start > end {
            return Ok(Reply::bulk(""));
        }
        let from_end = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
        let (start, end) = (from_end(start), from_end(end).min(length - 1));
        if start > end || length == 0 {
            return Ok(Reply::bulk(""));
        }
        let at = |at: i64| usize::try_from(at).unwrap_or_default();
        Ok(Reply::bulk(&text[at(start)..=at(end)]))
    }

    pub(super) fn append(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        let mut text = self.text(caller, words[1])?.cloned().unwrap_or_default();
        text.extend_from_slice(words[2]);
        let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
        self.replace_text(caller, words[1], text);
        Ok(Reply::Integer(length))
    }

    pub(super) fn incr(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        let before =
            self.text(caller, words[1])?.map_or(Some(0), |text| integer(text)).ok_or(NOT_AN_INTEGER)?;
        let after = before.checked_add(1);
        let after = after.ok_or(Reply::error("ERR increment or decrement would overflow"))?;
        self.replace_text(caller, words[1], after.to_string().into_bytes());
        Ok(Reply::Integer(after))
    }

    /// Valkey's compare-and-delete.
    pub(super) fn delifeq(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        let equal = self.text(caller, words[1])?.is_some_and(|text| text == words[2]);
        Ok(Reply::Integer(i64::from(equal && self.remove(caller, words[1]))))
    }

    /// Redis's compare-and-delete.
    pub(super) fn delex(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        if words.len() != 2 && words.len() != 4 {
            return Err(Reply::error("ERR wrong number of arguments for 'delex' command"));
        }
        let Some(value) = self.entry(caller, words[1]).map(|entry| &entry.value) else {
            return Ok(Reply::Integer(0));
        };
        let is_wanted = match (words.get(2), value) {
            (None, _) => true,
            (Some(condition), Value::Text(text)) => match option(condition).as_slice() {
                b"IFEQ" => text == words[3],
                b"IFNE" => text != words[3],
                _ => return Err(Reply::error("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")),
            },
            (Some(_), _) => {
                return Err(Reply::error("ERR Key should be of string type if conditions are specified"));
            }
        };
        Ok(Reply::Integer(i64::from(is_wanted && self.remove(caller, words[1]))))
    }

    /// Replaces a text, whose ttl goes on.
    fn replace_text(&mut self, caller: &Caller, key: &[u8], text: Vec<u8>) {
        if self.entry(caller, key).is_some() {
            self.update(caller, key, |entry| entry.value = Value::Text(text));
        } else {
            let origin = caller.origin(OriginCommand::Other);
            self.put(caller, key, Entry { value: Value::Text(text), expires: None, origin });
        }
    }

    /// Whether another type than `wanted` is stored under `key`.
    pub(super) fn check_type(&mut self, caller: &Caller, key: &[u8], wanted: &str) -> Result<(), Reply> {
        match self.entry(caller, key) {
            Some(entry) if entry.value.type_name() != wanted => Err(WRONG_TYPE),
            _ => Ok(()),
        }
    }
}
