//! Commands on the connection of a client: its protocol, login and channels.

use super::{Answer, Caller, NOT_AN_INTEGER, SYNTAX, number, option};
use crate::simulator::redis_server::keyspace::DATABASES;
use crate::simulator::redis_server::numbers::integer;
use crate::simulator::redis_server::resp::{Protocol, Reply};
use crate::simulator::redis_server::{Client, RedisServer, Version};
use std::borrow::Cow;

const WRONG_PASSWORD: Reply =
    Reply::Error(Cow::Borrowed("WRONGPASS invalid username-password pair or user is disabled."));

impl RedisServer {
    pub(super) fn hello(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        let protocol = match words.get(1).map(|word| integer(word)) {
            None => caller.protocol,
            Some(Some(2)) => Protocol::Resp2,
            Some(Some(3)) => Protocol::Resp3,
            Some(Some(_)) => return Err(Reply::error("NOPROTO unsupported protocol version")),
            Some(None) => return Err(Reply::error("ERR Protocol version is not an integer or out of range")),
        };
        let (mut rest, mut name) = (words.get(2..).unwrap_or_default(), None);
        while let [word, after @ ..] = rest {
            rest = match (option(word).as_slice(), after) {
                (b"AUTH", [user, password, after @ ..]) => {
                    self.log_in(caller, user, password)?;
                    after
                }
                (b"SETNAME", [given, after @ ..]) => {
                    name = Some(checked_name(given)?);
                    after
                }
                _ => {
                    let word = String::from_utf8_lossy(word);
                    return Err(Reply::Error(format!("ERR Syntax error in HELLO option '{word}'").into()));
                }
            };
        }
        let form = if self.version.is_after_redis_7_0() { "HELLO <proto> AUTH" } else { "HELLO AUTH" };
        let Some(client) = self.client(caller) else { return Err(SYNTAX) };
        if !client.logged_in {
            let text = format!(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the {form} <user> \
                 <pass> option can be used to authenticate the client and select the RESP protocol version at \
                 the same time"
            );
            return Err(Reply::Error(text.into()));
        }
        if let Some(name) = name {
            client.name = name;
        }
        client.protocol = protocol;
        Ok(self.greeting(caller, protocol))
    }

    fn greeting(&self, caller: &Caller, protocol: Protocol) -> Reply {
        let (server, version) = match self.version {
            Version::Redis62 => ("redis", "6.2.14"),
            Version::Redis7 => ("redis", "7.0.15"),
            Version::Redis84 => ("redis", "8.4.0"),
            Version::Valkey9 => ("valkey", "9.1.2"),
        };
        let lua = || {
            Reply::Map(vec![
                (Reply::bulk("name"), Reply::bulk("lua")),
                (Reply::bulk("ver"), Reply::Integer(1)),
                (Reply::bulk("path"), Reply::bulk("lua")),
                (Reply::bulk("args"), Reply::Array(Vec::new())),
            ])
        };
        let modules = if self.version.is_valkey() { vec![lua()] } else { Vec::new() };
        let role = if self.state.is_replica { "replica" } else { "master" };
        Reply::Map(vec![
            (Reply::bulk("server"), Reply::bulk(server)),
            (Reply::bulk("version"), Reply::bulk(version)),
            (Reply::bulk("proto"), Reply::Integer(if protocol == Protocol::Resp3 { 3 } else { 2 })),
            (Reply::bulk("id"), Reply::Integer(i64::try_from(caller.connection).unwrap_or(i64::MAX))),
            (Reply::bulk("mode"), Reply::bulk("standalone")),
            (Reply::bulk("role"), Reply::bulk(role)),
            (Reply::bulk("modules"), Reply::Array(modules)),
        ])
    }

    pub(super) fn auth(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        match words[1..] {
            [_] if self.state.password.is_none() => Err(Reply::error(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                 your configuration is correct?",
            )),
            [password] => self.log_in(caller, b"default", password).map(|()| Reply::OK),
            [user, password] => self.log_in(caller, user, password).map(|()| Reply::OK),
            _ => Err(SYNTAX),
        }
    }

    /// Without a password the default user accepts any.
    fn log_in(&mut self, caller: &Caller, user: &[u8], password: &[u8]) -> Result<(), Reply> {
        let accepts = self.state.password.as_ref().is_none_or(|needed| needed.as_bytes() == password);
        if user != b"default" || !accepts {
            return Err(WRONG_PASSWORD);
        }
        if let Some(client) = self.client(caller) {
            client.logged_in = true;
        }
        Ok(())
    }

    pub(super) fn select(&mut self, caller: &mut Caller, words: &[&[u8]]) -> Answer {
        let database = usize::try_from(number(words[1])?).ok().filter(|database| *database < DATABASES);
        let database = database.ok_or(Reply::error("ERR DB index is out of range"))?;
        caller.database = database;
        // What a script selects is for the script.
        if let (None, Some(client)) = (&caller.script, self.client(caller)) {
            client.database = database;
        }
        Ok(Reply::OK)
    }

    pub(super) fn ping(&mut self, caller: &Caller, words: &[&[u8]]) -> Reply {
        if words.len() > 2 {
            return Reply::error("ERR wrong number of arguments for 'ping' command");
        }
        let subscribed = self.client(caller).is_some_and(|client| !client.channels.is_empty());
        match words.get(1) {
            text if subscribed && caller.protocol == Protocol::Resp2 => {
                Reply::Array(vec![Reply::bulk("pong"), Reply::bulk(text.copied().unwrap_or_default())])
            }
            Some(text) => Reply::bulk(text),
            None => Reply::Status(Cow::Borrowed("PONG")),
        }
    }

    pub(super) fn quit(&mut self, caller: &Caller) -> Reply {
        self.to_close = Some(caller.connection);
        Reply::OK
    }

    pub(super) fn client_setname(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        let name = checked_name(words[2])?;
        if let Some(client) = self.client(caller) {
            client.name = name;
        }
        Ok(Reply::OK)
    }

    pub(super) fn client_getname(&mut self, caller: &Caller) -> Reply {
        let name = self.client(caller).map(|client| client.name.clone()).filter(|name| !name.is_empty());
        name.map_or(Reply::Null, Reply::bulk)
    }

    /// Closes a connection by its id. Never the caller's own, which the server skips.
    pub(super) fn client_kill(&mut self, caller: &Caller, words: &[&[u8]]) -> Answer {
        let id = match words[2..] {
            [_] => return Err(Reply::error("ERR No such client")),
            [filter, id] if option(filter).as_slice() == b"ID" => integer(id),
            _ => return Err(SYNTAX),
        };
        let old = self.version == Version::Redis62;
        let id = match id {
            None if self.version.is_valkey() => return Err(SYNTAX),
            None if old => return Err(NOT_AN_INTEGER),
            // Before version 7 that was no filter.
            Some(0) if old => None,
            Some(id) if id > 0 || old => Some(u64::try_from(id).unwrap_or(u64::MAX)),
            _ => return Err(Reply::error("ERR client-id should be greater than 0")),
        };
        let is_killed = |other: &u64| *other != caller.connection && id.is_none_or(|id| *other == id);
        let killed: Vec<u64> = self.connections.keys().copied().filter(is_killed).collect();
        killed.iter().for_each(|connection| self.close(*connection));
        Ok(Reply::Integer(i64::try_from(killed.len()).unwrap_or(i64::MAX)))
    }

    pub(super) fn subscribe(&mut self, caller: &Caller, words: &[&[u8]]) -> Reply {
        let connection = caller.connection;
        let confirmed = words[1..].iter().map(|channel| {
            self.channels.entry(channel.to_vec()).or_default().insert(connection);
            let count = self.connections.get_mut(&connection).map_or(0, |client| {
                client.channels.insert(channel.to_vec());
                client.channels.len()
            });
            confirmation("subscribe", Reply::bulk(channel), count)
        });
        Reply::Several(confirmed.collect())
    }

    pub(super) fn unsubscribe(&mut self, caller: &Caller, words: &[&[u8]]) -> Reply {
        let Some(client) = self.client(caller) else { return Reply::Several(Vec::new()) };
        let channels: Vec<Vec<u8>> = match &words[1..] {
            [] => client.channels.iter().cloned().collect(),
            given => given.iter().map(|channel| channel.to_vec()).collect(),
        };
        if channels.is_empty() {
            return confirmation("unsubscribe", Reply::Null, 0);
        }
        let confirmed = channels.into_iter().map(|channel| {
            let count = self.connections.get_mut(&caller.connection).map_or(0, |client| {
                client.channels.remove(&channel);
                client.channels.len()
            });
            self.remove_subscriber(caller.connection, &channel);
            confirmation("unsubscribe", Reply::Bulk(channel), count)
        });
        Reply::Several(confirmed.collect())
    }

    /// Sends a message to all subscribers of a channel; answers how many there are.
    pub(super) fn publish(&mut self, channel: &[u8], message: &[u8]) -> Reply {
        let Some(subscribers) = self.channels.get(channel) else { return Reply::Integer(0) };
        let push = Reply::Push(vec![Reply::bulk("message"), Reply::bulk(channel), Reply::bulk(message)]);
        for subscriber in subscribers {
            let Some(client) = self.connections.get_mut(subscriber) else { continue };
            let waits = self.version.is_after_redis_7_0() && self.current == Some(*subscriber);
            let out = if waits { &mut self.deferred } else { &mut client.output };
            push.write(out, client.protocol, self.version);
        }
        Reply::Integer(i64::try_from(subscribers.len()).unwrap_or(i64::MAX))
    }

    pub(super) fn numsub(&self, words: &[&[u8]]) -> Reply {
        let counts = words[2..].iter().flat_map(|channel| {
            let count = self.channels.get(*channel).map_or(0, |subscribers| subscribers.len());
            [Reply::bulk(channel), Reply::Integer(i64::try_from(count).unwrap_or(i64::MAX))]
        });
        Reply::Array(counts.collect())
    }

    /// Forgets that a connection has subscribed to a channel.
    pub(in crate::simulator::redis_server) fn remove_subscriber(&mut self, connection: u64, channel: &[u8]) {
        if let Some(subscribers) = self.channels.get_mut(channel) {
            subscribers.remove(&connection);
            if subscribers.is_empty() {
                self.channels.remove(channel);
            }
        }
    }

    fn client(&mut self, caller: &Caller) -> Option<&mut Client> {
        self.connections.get_mut(&caller.connection)
    }
}

fn confirmation(what: &str, channel: Reply, count: usize) -> Reply {
    Reply::Push(vec![Reply::bulk(what), channel, Reply::Integer(i64::try_from(count).unwrap_or(i64::MAX))])
}

fn checked_name(name: &[u8]) -> Result<String, Reply> {
    if !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(Reply::error("ERR Client names cannot contain spaces, newlines or special characters."));
    }
    Ok(String::from_utf8_lossy(name).into_owned())
}
