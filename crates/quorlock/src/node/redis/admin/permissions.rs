//! Which of the commands that we need a server refuses, found by trying each in a form that changes nothing.

use crate::node::redis::admin::session::Session;
use crate::node::redis::protocol::encode::{
    EPOCH_KEY, FENCE_KEY, FREE_CHANNEL, READERS_KEY, SLOTS_KEY, TAKEN_KEY, WAITING_KEY, WRITER_KEY,
};
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::server_errors::{classify, is_unknown_command};
use crate::node::{Denial, NodeError, Purpose};

/// One command that we probe.
struct Probe {
    command: &'static str,
    /// How it is tried; `{}` is replaced by what it is tried on.
    arguments: &'static str,
    on: Target,
    purpose: Purpose,
}

/// What a command is tried on. A script is refused as a whole if our user lacks one of the keys that it
/// declares, so each kind of key is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Nothing,
    /// A key where no lock is.
    Name,
    Fence,
    Epoch,
    /// The key that exists while a client waits.
    Waiting,
    /// The key of a token that was released by force.
    Taken,
    /// The labels of shared holders.
    Readers,
    /// The key that keeps readers out.
    Writer,
    /// The number of slots of a semaphore.
    Slots,
    /// One slot.
    Slot,
    Channel,
}

const fn probe(command: &'static str, arguments: &'static str, on: Target, purpose: Purpose) -> Probe {
    Probe { command, arguments, on, purpose }
}

/// Writes are tried on keys that do not exist and are not made (`XX`). The epoch and the key of waiters may
/// exist, and `HSET` has no such form, so these are writes that the server refuses for their grammar, which it
/// checks after the permission.
const PROBES: [Probe; 41] = [
    probe("SET", "{} probe XX PX 1000", Target::Name, Purpose::Locking),
    probe("GET", "{}", Target::Name, Purpose::Locking),
    probe("GETRANGE", "{} 0 1", Target::Name, Purpose::Locking),
    probe("PTTL", "{}", Target::Name, Purpose::Locking),
    probe("PEXPIRE", "{} 1000", Target::Name, Purpose::Locking),
    probe("DEL", "{}", Target::Name, Purpose::Locking),
    probe("TYPE", "{}", Target::Name, Purpose::Locking),
    probe("ZADD", "{} XX GT CH 1 f", Target::Fence, Purpose::Locking),
    probe("ZSCORE", "{} f", Target::Fence, Purpose::Locking),
    probe("EXPIRE", "{} 1", Target::Fence, Purpose::Locking),
    probe("EXISTS", "{}", Target::Waiting, Purpose::Locking),
    probe("EXISTS", "{}", Target::Readers, Purpose::Locking),
    probe("EXISTS", "{}", Target::Taken, Purpose::Locking),
    probe("SET", "{} probe XX PX 1000", Target::Taken, Purpose::Locking),
    probe("SCRIPT LOAD", "return", Target::Nothing, Purpose::Locking),
    probe("EVAL", "return 0", Target::Nothing, Purpose::Locking),
    probe("EVALSHA", "ffffffffffffffffffffffffffffffffffffffff 0", Target::Nothing, Purpose::Locking),
    probe("TIME", "", Target::Nothing, Purpose::Locking),
    probe("GETRANGE", "{} 0 1", Target::Epoch, Purpose::RestartGuard),
    probe("SET", "{} probe NX XX", Target::Epoch, Purpose::RestartGuard),
    probe("ZADD", "{} XX 1 f", Target::Name, Purpose::SharedLocks),
    probe("ZREM", "{} f", Target::Name, Purpose::SharedLocks),
    probe("ZCARD", "{}", Target::Name, Purpose::SharedLocks),
    probe("ZCOUNT", "{} 0 1", Target::Name, Purpose::SharedLocks),
    probe("ZRANGE", "{} -1 -1", Target::Name, Purpose::SharedLocks),
    probe("ZRANGEBYSCORE", "{} 0 1", Target::Name, Purpose::SharedLocks),
    probe("PEXPIREAT", "{} 1", Target::Name, Purpose::SharedLocks),
    probe("HSET", "{} f v f", Target::Readers, Purpose::SharedLocks),
    probe("HGET", "{} f", Target::Readers, Purpose::SharedLocks),
    probe("HDEL", "{} f", Target::Readers, Purpose::SharedLocks),
    probe("DEL", "{}", Target::Writer, Purpose::SharedLocks),
    probe("SET", "{} probe XX PX 1000", Target::Writer, Purpose::SharedLocks),
    probe("GET", "{}", Target::Slots, Purpose::Semaphores),
    probe("SET", "{} probe XX EX 1", Target::Slots, Purpose::Semaphores),
    probe("SET", "{} probe XX PX 1000", Target::Slot, Purpose::Semaphores),
    probe("SET", "{} probe NX XX", Target::Waiting, Purpose::Hints),
    probe("PUBLISH", "{} probe", Target::Channel, Purpose::Hints),
    probe("PUBSUB NUMSUB", "probe", Target::Nothing, Purpose::Hints),
    // No connection has the highest number. Never 0: to servers before version 7 that means all connections.
    probe("CLIENT KILL", "ID 9223372036854775807", Target::Nothing, Purpose::Reconnecting),
    probe("SCAN", "0 COUNT 1", Target::Nothing, Purpose::Listing),
    probe("CONFIG GET", "appendfsync", Target::Nothing, Purpose::Durability),
];

/// Tried last, because its confirmation is a push.
const SUBSCRIBE: Probe = probe("SUBSCRIBE", "{}", Target::Channel, Purpose::Hints);

/// What is denied to us of all that we probe. `nonce` makes keys that no other client has.
pub(crate) async fn denied(session: &mut Session, nonce: &str) -> Result<Vec<Denial>, NodeError> {
    for probe in PROBES.iter().chain([&SUBSCRIBE]) {
        probe.push(session, nonce);
    }
    probe("UNSUBSCRIBE", "{}", Target::Channel, Purpose::Hints).push(session, nonce);
    session.push(&[b"PING"]);
    let mut denied = Vec::new();
    for probe in &PROBES {
        denied.extend(probe.judge(&session.reply_raw().await?, nonce));
    }
    // At most three: an error for each that is refused, and the answer to the ping.
    for _ in 0..3 {
        match session.reply_raw().await? {
            Value::Error(text) if denied.iter().all(|denial| denial.command != "SUBSCRIBE") => {
                denied.extend(SUBSCRIBE.judge(&Value::Error(text), nonce));
            }
            Value::Error(_) => {}
            _ => break,
        }
    }
    Ok(denied)
}

impl Probe {
    fn push(&self, session: &mut Session, nonce: &str) {
        let target = self.on.target(nonce).unwrap_or_default();
        let words = self.command.split(' ').chain(self.arguments.split_whitespace());
        let words: Vec<&[u8]> =
            words.map(|word| if word == "{}" { target.as_bytes() } else { word.as_bytes() }).collect();
        session.push(&words);
    }

    fn judge(&self, reply: &Value, nonce: &str) -> Option<Denial> {
        let Value::Error(text) = reply else { return None };
        let cause = refusal(text)?;
        // A user may be allowed just the names that it locks, which we do not know.
        if self.on == Target::Name && is_about_keys(&cause) {
            return None;
        }
        Some(Denial {
            command: self.command.to_owned(),
            on: self.on.target(nonce),
            purpose: self.purpose,
            cause,
        })
    }
}

impl Target {
    fn target(self, nonce: &str) -> Option<String> {
        // No lock can have a name that starts like this.
        let name = format!("quorlock:probe:{nonce}");
        match self {
            Target::Nothing => None,
            Target::Name => Some(name),
            Target::Fence => Some(format!("{FENCE_KEY}{name}")),
            Target::Epoch => Some(EPOCH_KEY.to_owned()),
            Target::Waiting => Some(WAITING_KEY.to_owned()),
            Target::Taken => Some(format!("{TAKEN_KEY}{name}")),
            Target::Readers => Some(format!("{READERS_KEY}{name}")),
            Target::Writer => Some(format!("{WRITER_KEY}{name}")),
            Target::Slots => Some(format!("{SLOTS_KEY}{name}")),
            Target::Slot => Some(format!("quorlock:slot:{name}:0")),
            Target::Channel => Some(format!("{FREE_CHANNEL}{name}")),
        }
    }
}

/// What the error of a command says against using it; `None` if it complains only about how it was tried.
fn refusal(text: &[u8]) -> Option<NodeError> {
    match classify(text) {
        NodeError::Server { .. } if !is_unknown_command(text) => None,
        cause => Some(cause),
    }
}

/// Whether a permission is missing for a key and not for the command.
fn is_about_keys(cause: &NodeError) -> bool {
    matches!(cause, NodeError::NoPermission { message } if !message.contains(" to run "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_failed_for_how_it_was_tried_is_not_denied() {
        for (text, kind) in [
            ("ERR syntax error", None),
            ("NOSCRIPT No matching script. Please use EVAL.", None),
            ("ERR client-id should be greater than 0", None),
            ("ERR unknown command 'EVAL', with args beginning with: 'return' '0' ", Some("server")),
            ("NOPERM User app has no permissions to run the 'set' command", Some("no_permission")),
            ("OOM command not allowed when used memory > 'maxmemory'.", Some("out_of_memory")),
            ("MISCONF Redis is configured to save RDB snapshots", Some("misconfigured")),
        ] {
            assert_eq!(refusal(text.as_bytes()).map(|cause| cause.kind()), kind, "{text}");
        }
    }

    #[test]
    fn a_key_that_is_not_allowed_is_distinct_from_a_command_that_is_not() {
        for (text, about_keys) in [
            ("NOPERM this user has no permissions to access one of the keys used as arguments", true),
            ("NOPERM No permissions to access a key", true),
            ("NOPERM this user has no permissions to run the 'set' command", false),
            ("NOPERM User keymaster has no permissions to run the 'get' command", false),
        ] {
            assert_eq!(is_about_keys(&classify(text.as_bytes())), about_keys, "{text}");
        }
    }
}
