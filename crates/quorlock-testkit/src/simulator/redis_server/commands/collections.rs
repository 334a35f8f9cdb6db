//! Commands on sorted sets; enough of lists, hashes and sets to be of another type.

use super::{Answer, Caller, SYNTAX, option};
use crate::simulator::redis_server::RedisServer;
use crate::simulator::redis_server::keyspace::{Entry, OriginCommand, Value};
use crate::simulator::redis_server::numbers::double;
use crate::simulator::redis_server::resp::Reply;
use std::collections::{BTreeMap, BTreeSet};

/// The options of `ZADD`.
#[derive(Default)]
struct ZaddOptions {
    if_absent: bool,
    if_present: bool,
    if_greater: bool,
    if_less: bool,
    counts_changes: bool,
    increments: bool,
}

impl ZaddOptions {
    /// The options, and the words after them.
    fn parse<'a, 'b>(words: &'a [&'b [u8]]) -> (Self, &'a [&'b [u8]]) {
        let mut options = Self::default();
        for (at, word) in words.iter().enumerate() {
            match option(word).as_slice() {
                b"NX" => options.if_absent = true,
                b"XX" => options.if_present = true,
                b"GT" => options.if_greater = true,
                b"LT" => options.if_less = true,
                b"CH" => options.counts_changes = true,
                b"INCR" => options.increments = true,
                _ => return (options, &words[at..]),
            }
        }
        (options, &[])
    }

    fn check(&self, pairs: &[&[u8]]) -> Result<(), Reply> {
        if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
            return Err(SYNTAX);
        }
        if self.if_absent && self.if_present {
            return Err(Reply::error("ERR XX and NX options at the same time are not compatible"));
        }
        if (self.if_greater && (self.if_absent || self.if_less)) || (self.if_less && self.if_absent) {
            return Err(Reply::error("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if self.increments && pairs.len() > 2 {
            return Err(Reply::error("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }

    /// The score that a member gets; `None` if it stays as it is.
    fn score(&self, before: Option<f64>, given: f64) -> Option<f64> {
        let Some(before) = before else { return (!self.if_present).then_some(given) };
        let after = if self.increments { before + given } else { given };
        let is_kept = self.if_absent
            || (self.if_greater && after <= before)
            || (self.if_less && after >= before)
            || after.is_nan();
        (!is_kept).then_some(after)
    }
}

impl RedisServer {
    pub(super) fn zadd(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        let key = words[1];
        let (options, pairs) = ZaddOptions::parse(&words[2..]);
        options.check(pairs)?;
        let scores: Option<Vec<f64>> = pairs.iter().step_by(2).map(|score| double(score)).collect();
        let scores = scores.ok_or(Reply::error("ERR value is not a valid float"))?;
        self.check_type(caller, key, "zset")?;
        let (mut added, mut changed, mut last) = (0, 0, None);
        let mut changes = Vec::new();
        for (given, member) in scores.into_iter().zip(pairs.iter().skip(1).step_by(2)) {
            let earlier =
                changes.iter().rev().find(|(changed, _)| changed == member).map(|(_, score)| *score);
            let before = earlier.or_else(|| self.score(caller, key, member));
            last = options.score(before, given);
            let Some(score) = last else { continue };
            added += i64::from(before.is_none());
            changed += i64::from(before.is_some_and(|before| before != score));
            changes.push((*member, score));
        }
        self.store_scores(caller, key, &changes);
        Ok(match options.increments {
            true => last.map_or(Reply::Null, Reply::Double),
            false => Reply::Integer(if options.counts_changes { added + changed } else { added }),
        })
    }

    pub(super) fn zscore(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        self.check_type(caller, words[1], "zset")?;
        Ok(self.score(caller, words[1], words[2]).map_or(Reply::Null, Reply::Double))
    }

    fn score(&mut self, caller: &Caller, key: &[u8], member: &[u8]) -> Option<f64> {
        match &self.entry(caller, key)?.value {
            Value::SortedSet(scores) => scores.get(member).copied(),
            _ => None,
        }
    }

    fn store_scores(&mut self, caller: &Caller, key: &[u8], changes: &[(&[u8], f64)]) {
        if changes.is_empty() {
            return;
        }
        self.create(caller, key, || Value::SortedSet(BTreeMap::new()));
        self.update(caller, key, |entry| {
            if let Value::SortedSet(scores) = &mut entry.value {
                scores.extend(changes.iter().map(|(member, score)| (member.to_vec(), *score)));
            }
        });
    }

    pub(super) fn lpush(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        self.check_type(caller, words[1], "list")?;
        self.create(caller, words[1], || Value::List(Vec::new()));
        let mut length = 0;
        self.update(caller, words[1], |entry| {
            if let Value::List(items) = &mut entry.value {
                words[2..].iter().for_each(|item| items.insert(0, item.to_vec()));
                length = items.len();
            }
        });
        Ok(Reply::Integer(i64::try_from(length).unwrap_or(i64::MAX)))
    }

    pub(super) fn hset(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        if !words.len().is_multiple_of(2) {
            return Err(Reply::error("ERR wrong number of arguments for 'hset' command"));
        }
        self.check_type(caller, words[1], "hash")?;
        self.create(caller, words[1], || Value::Hash(BTreeMap::new()));
        let mut added = 0;
        self.update(caller, words[1], |entry| {
            if let Value::Hash(fields) = &mut entry.value {
                for pair in words[2..].chunks_exact(2) {
                    added += i64::from(fields.insert(pair[0].to_vec(), pair[1].to_vec()).is_none());
                }
            }
        });
        Ok(Reply::Integer(added))
    }

    pub(super) fn sadd(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        self.check_type(caller, words[1], "set")?;
        self.create(caller, words[1], || Value::Set(BTreeSet::new()));
        let mut added = 0;
        self.update(caller, words[1], |entry| {
            if let Value::Set(members) = &mut entry.value {
                added = words[2..].iter().map(|member| i64::from(members.insert(member.to_vec()))).sum();
            }
        });
        Ok(Reply::Integer(added))
    }

    /// Stores an empty value if there is none.
    fn create(&mut self, caller: &Caller, key: &[u8], empty: impl FnOnce() -> Value) {
        if self.entry(caller, key).is_none() {
            let origin = caller.origin(OriginCommand::Other);
            self.put(caller, key, Entry { value: empty(), expires: None, origin });
        }
    }
}
