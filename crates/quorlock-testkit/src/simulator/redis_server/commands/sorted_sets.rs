//! Commands that count, list and remove members of sorted sets.

use super::{Answer, Caller, SYNTAX, number, option};
use crate::simulator::redis_server::RedisServer;
use crate::simulator::redis_server::keyspace::Value;
use crate::simulator::redis_server::numbers::double;
use crate::simulator::redis_server::resp::{Protocol, Reply};

/// Members with their scores, in the order of the server.
type Members = Vec<(Vec<u8>, f64)>;

/// One end of a range of scores.
#[derive(Clone, Copy)]
struct Bound {
    score: f64,
    is_outside: bool,
}

impl Bound {
    fn parse(word: &[u8]) -> Result<Self, Reply> {
        let (word, is_outside) = word.strip_prefix(b"(").map_or((word, false), |rest| (rest, true));
        let score = double(word).ok_or(Reply::error("ERR min or max is not a float"))?;
        Ok(Self { score, is_outside })
    }
}

fn is_within(score: f64, (low, high): (Bound, Bound)) -> bool {
    let is_above = score > low.score || (score == low.score && !low.is_outside);
    let is_below = score < high.score || (score == high.score && !high.is_outside);
    is_above && is_below
}

impl RedisServer {
    pub(super) fn zcard(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        self.members(caller, words[1]).map(|members| count(&members))
    }

    pub(super) fn zcount(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        let range = (Bound::parse(words[2])?, Bound::parse(words[3])?);
        let mut members = self.members(caller, words[1])?;
        members.retain(|(_, score)| is_within(*score, range));
        Ok(count(&members))
    }

    /// By places only; ranges of another kind are a syntax error here.
    pub(super) fn zrange(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        let with_scores = match &words[4..] {
            [] => false,
            [word] if option(word).as_slice() == b"WITHSCORES" => true,
            _ => return Err(SYNTAX),
        };
        let (start, stop) = (number(words[2])?, number(words[3])?);
        let members = self.members(caller, words[1])?;
        let length = i64::try_from(members.len()).unwrap_or(i64::MAX);
        let place = |at: i64| if at < 0 { at + length } else { at };
        let (first, last) = (place(start).max(0), place(stop).min(length - 1));
        let count = usize::try_from(last - first + 1).unwrap_or_default();
        let skipped = usize::try_from(first).unwrap_or_default();
        Ok(listed(caller, members.into_iter().skip(skipped).take(count).collect(), with_scores))
    }

    pub(super) fn zrangebyscore(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        let (mut with_scores, mut limit, mut rest) = (false, None, &words[4..]);
        while let [word, after @ ..] = rest {
            rest = match (option(word).as_slice(), after) {
                (b"WITHSCORES", _) => {
                    with_scores = true;
                    after
                }
                (b"LIMIT", [offset, count, after @ ..]) => {
                    limit = Some((number(offset)?, number(count)?));
                    after
                }
                _ => return Err(SYNTAX),
            };
        }
        let range = (Bound::parse(words[2])?, Bound::parse(words[3])?);
        let mut members = self.members(caller, words[1])?;
        members.retain(|(_, score)| is_within(*score, range));
        if let Some((offset, count)) = limit {
            // A negative offset finds nothing, a negative count everything.
            let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
            let most = usize::try_from(count).unwrap_or(usize::MAX);
            members = members.into_iter().skip(skipped).take(most).collect();
        }
        Ok(listed(caller, members, with_scores))
    }

    pub(super) fn zrem(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        self.check_type(caller, words[1], "zset")?;
        self.remove_parts(caller, words, |value, member| match value {
            Value::SortedSet(scores) => (scores.remove(member).is_some(), scores.is_empty()),
            _ => (false, false),
        })
    }

    /// Removes the members or fields `words[2..]` from what is stored under `words[1]`, and the key with the
    /// last of them. `remove` answers whether it removed one, and whether none is left.
    pub(super) fn remove_parts(
        &mut self,
        caller: &Caller,
        words: &[&[u8]],
        remove: impl Fn(&mut Value, &[u8]) -> (bool, bool),
    ) -> Answer {
        let (mut removed, mut is_empty) = (0, false);
        if self.entry(caller, words[1]).is_some() {
            self.update(caller, words[1], |entry| {
                for part in &words[2..] {
                    let (was_there, is_last) = remove(&mut entry.value, part);
                    removed += i64::from(was_there);
                    is_empty = is_last;
                }
            });
        }
        if is_empty {
            self.remove(caller, words[1]);
        }
        Ok(Reply::Integer(removed))
    }

    /// By score, and by their text where scores are equal.
    fn members(&mut self, caller: &Caller, key: &[u8]) -> Result<Members, Reply> {
        self.check_type(caller, key, "zset")?;
        let Some(Value::SortedSet(scores)) = self.entry(caller, key).map(|entry| &entry.value) else {
            return Ok(Vec::new());
        };
        let mut members: Members = scores.iter().map(|(member, score)| (member.clone(), *score)).collect();
        members.sort_by(|one, other| one.1.total_cmp(&other.1));
        Ok(members)
    }
}

fn count(members: &Members) -> Reply {
    Reply::Integer(i64::try_from(members.len()).unwrap_or(i64::MAX))
}

fn listed(caller: &Caller, members: Members, with_scores: bool) -> Reply {
    // Scripts get the replies of RESP2.
    let in_pairs = caller.protocol == Protocol::Resp3 && caller.script.is_none();
    let items = members.into_iter().flat_map(|(member, score)| match with_scores {
        false => vec![Reply::bulk(member)],
        true if in_pairs => vec![Reply::Array(vec![Reply::bulk(member), Reply::Double(score)])],
        true => vec![Reply::bulk(member), Reply::Double(score)],
    });
    Reply::Array(items.collect())
}
