//! What each command does.

mod collections;
mod connection;
mod hashes;
mod keys;
mod scripting;
mod server;
mod sorted_sets;
mod strings;

pub(super) use scripting::{Replacement, Script};

use crate::simulator::redis_server::RedisServer;
use crate::simulator::redis_server::command_table::{Command, Spec};
use crate::simulator::redis_server::keyspace::{Entry, Origin, OriginCommand, Value};
use crate::simulator::redis_server::numbers::integer;
use crate::simulator::redis_server::resp::{Protocol, Reply};
use smallvec::SmallVec;
use std::sync::Arc;

/// On whose behalf a command runs.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) connection: u64,
    pub(super) database: usize,
    pub(super) protocol: Protocol,
    /// The hash of the script that calls it, if one does.
    pub(super) script: Option<Arc<str>>,
}

const SYNTAX: Reply = Reply::Error(std::borrow::Cow::Borrowed("ERR syntax error"));
const NOT_AN_INTEGER: Reply =
    Reply::Error(std::borrow::Cow::Borrowed("ERR value is not an integer or out of range"));
const WRONG_TYPE: Reply = Reply::Error(std::borrow::Cow::Borrowed(
    "WRONGTYPE Operation against a key holding the wrong kind of value",
));

/// What a command answers; the error is one, too.
type Answer = Result<Reply, Reply>;

impl Caller {
    fn origin(&self, plain: OriginCommand) -> Origin {
        let command = self.script.as_ref().map_or(plain, |hash| OriginCommand::Script(hash.clone()));
        Origin { connection: self.connection, command }
    }
}

impl RedisServer {
    /// Executes a command that was admitted.
    pub(super) fn run(&mut self, caller: &mut Caller, spec: &Spec, words: &[&[u8]]) -> Reply {
        let answer = match spec.command {
            Command::Set => self.set(caller, words),
            Command::Get => self.get(caller, words),
            Command::Getrange => self.getrange(caller, words),
            Command::Append => self.append(caller, words),
            Command::Incr => self.incr(caller, words),
            Command::Delifeq => self.delifeq(caller, words),
            Command::Delex => self.delex(caller, words),
            Command::Zadd => self.zadd(caller, words),
            Command::Zscore => self.zscore(caller, words),
            Command::Zcard => self.zcard(caller, words),
            Command::Zcount => self.zcount(caller, words),
            Command::Zrange => self.zrange(caller, words),
            Command::Zrangebyscore => self.zrangebyscore(caller, words),
            Command::Zrem => self.zrem(caller, words),
            Command::Hget => self.hget(caller, words),
            Command::Hdel => self.hdel(caller, words),
            Command::Lpush => self.lpush(caller, words),
            Command::Hset => self.hset(caller, words),
            Command::Sadd => self.sadd(caller, words),
            Command::Del => Ok(self.del(caller, words)),
            Command::Exists => Ok(self.exists(caller, words)),
            Command::Expire | Command::Pexpire | Command::Pexpireat => self.expire(caller, spec, words),
            Command::Ttl | Command::Pttl => Ok(self.ttl(caller, spec, words)),
            Command::Type => Ok(self.type_of(caller, words)),
            Command::Scan => self.scan(caller, words),
            Command::Flushall => self.flushall(words),
            Command::Hello => self.hello(caller, words),
            Command::Auth => self.auth(caller, words),
            Command::Select => self.select(caller, words),
            Command::Ping => Ok(self.ping(caller, words)),
            Command::Echo => Ok(Reply::bulk(words[1])),
            Command::Quit => Ok(self.quit(caller)),
            Command::ClientSetname => self.client_setname(caller, words),
            Command::ClientGetname => Ok(self.client_getname(caller)),
            Command::ClientId => Ok(Reply::Integer(i64::try_from(caller.connection).unwrap_or(i64::MAX))),
            Command::ClientKill => self.client_kill(caller, words),
            Command::ClientNoEvict => client_no_evict(words),
            Command::Subscribe => Ok(self.subscribe(caller, words)),
            Command::Unsubscribe => Ok(self.unsubscribe(caller, words)),
            Command::Publish => Ok(self.publish(words[1], words[2])),
            Command::PubsubNumsub => Ok(self.numsub(words)),
            Command::Info => Ok(self.info(words)),
            Command::Time => Ok(self.time()),
            Command::Role => Ok(self.role()),
            Command::ConfigGet => Ok(self.config_get(words)),
            Command::DescribeCommands => Ok(self.command_info(words)),
            Command::AclWhoami => Ok(Reply::bulk("default")),
            Command::Eval | Command::Evalsha => self.eval(caller, spec, words),
            Command::ScriptLoad => self.script_load(words),
            Command::ScriptExists => Ok(self.script_exists(words)),
            Command::ScriptFlush => self.script_flush(words),
        };
        answer.unwrap_or_else(|error| error)
    }

    /// What is stored under `key` for the caller.
    fn entry(&mut self, caller: &Caller, key: &[u8]) -> Option<&Entry> {
        let now = self.now;
        self.keyspace.get(caller.database, key, now)
    }

    /// The text under `key`; an error if another type is there.
    fn text(&mut self, caller: &Caller, key: &[u8]) -> Result<Option<&Vec<u8>>, Reply> {
        match self.entry(caller, key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    fn put(&mut self, caller: &Caller, key: &[u8], entry: Entry) {
        let now = self.now;
        self.keyspace.put(caller.database, key, entry, now);
    }

    fn update(&mut self, caller: &Caller, key: &[u8], change: impl FnOnce(&mut Entry)) {
        let now = self.now;
        self.keyspace.update(caller.database, key, now, change);
    }

    fn remove(&mut self, caller: &Caller, key: &[u8]) -> bool {
        let now = self.now;
        self.keyspace.remove(caller.database, key, now)
    }
}

/// `word` in upper case, for options.
fn option(word: &[u8]) -> SmallVec<[u8; 16]> {
    let mut option = SmallVec::from_slice(word);
    option.make_ascii_uppercase();
    option
}

fn number(word: &[u8]) -> Result<i64, Reply> {
    integer(word).ok_or(NOT_AN_INTEGER)
}

fn client_no_evict(words: &[&[u8]]) -> Answer {
    match option(words[2]).as_slice() {
        b"ON" | b"OFF" => Ok(Reply::OK),
        _ => Err(SYNTAX),
    }
}

/// The moment, in ms, at which a key expires that lives for `amount` of `unit` ms from now.
fn expiry(now_millis: u64, amount: i64, unit: i64) -> Option<i64> {
    let now = i64::try_from(now_millis).ok()?;
    amount.checked_mul(unit)?.checked_add(now)
}
