//! The commands of a lock as the server reads them.

use crate::node::redis::protocol::encode::{EPOCH_KEY, Encoder, WAITING_KEY, millis};
use crate::node::redis::protocol::scripts::{Hashes, Script};
use crate::node::{Acquire, Command};
use quorlock_core::{Fence, Name, Token};
use std::cell::RefCell;
use std::time::Duration;

/// How much of a stored value is ever read. Another program's value may be of any length.
const PREVIEW: u64 = 4096;
/// How long other clients believe that there are waiters, unless they are reminded. Several times the
/// interval of the reminders.
const WAITING_TTL: Duration = Duration::from_secs(10);

/// The vote: two plain commands, or one where no fence is wanted. The epoch that makes it count is read
/// once for all votes of a write.
pub(crate) fn acquire(out: &mut Vec<u8>, acquire: &Acquire) {
    LAST.with_borrow_mut(|last| {
        if !last.vote.as_ref().is_some_and(|vote| vote.is_encoded_like(acquire)) {
            last.bytes.clear();
            vote(&mut last.bytes, acquire);
            last.vote = Some(acquire.clone());
        }
        out.extend_from_slice(&last.bytes);
    });
}

thread_local! {
    /// The vote that this thread encoded last. It goes to every node, one after another.
    static LAST: RefCell<Encoded> = RefCell::default();
}

impl Acquire {
    /// Whether both are the same on the wire.
    fn is_encoded_like(&self, other: &Self) -> bool {
        self.token == other.token
            && self.proposal == other.proposal
            && self.ttl == other.ttl
            && self.name == other.name
            && self.label == other.label
    }
}

#[derive(Default)]
struct Encoded {
    vote: Option<Acquire>,
    bytes: Vec<u8>,
}

fn vote(out: &mut Vec<u8>, acquire: &Acquire) {
    Encoder::begin(out, b"*6\r\n$3\r\nSET\r\n")
        .arg(acquire.name.as_str())
        .value(&acquire.token, acquire.proposal, &acquire.label)
        .raw(b"$2\r\nNX\r\n$2\r\nPX\r\n")
        .number(millis(acquire.ttl));
    if acquire.proposal != Fence::NONE {
        Encoder::begin(out, b"*6\r\n$4\r\nZADD\r\n")
            .fence_key(&acquire.name)
            .raw(b"$2\r\nGT\r\n$2\r\nCH\r\n")
            .number(acquire.proposal.get())
            .raw(b"$1\r\nf\r\n");
    }
}

/// The epoch without its first `skip` bytes, which distinguishes this reading from those before it.
pub(crate) fn epoch(out: &mut Vec<u8>, skip: usize) {
    Encoder::command(out, 4).arg("GETRANGE").arg(EPOCH_KEY).number(skip as u64).arg("-1");
}

/// A release as the script takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReleaseCall {
    pub(crate) token: Token,
    /// Whether the name's fence counter gets a new expiry, too.
    pub(crate) renews_fence_ttl: bool,
    /// Whether waiters get no hint.
    pub(crate) quiet: bool,
    /// Whether the server must refuse to take the lock back.
    pub(crate) forced: bool,
}

impl ReleaseCall {
    /// How many keys its flags need.
    fn flag_keys(&self) -> usize {
        usize::from(self.renews_fence_ttl) + 2 * usize::from(self.forced)
    }
}

/// One call that releases all of `batch`.
pub(crate) fn releases<'a>(
    out: &mut Vec<u8>,
    hashes: &Hashes,
    batch: impl ExactSizeIterator<Item = (&'a Name, &'a ReleaseCall)> + Clone,
    sends_script: bool,
) {
    let count = batch.len();
    let flag_keys = batch.clone().map(|(_, release)| release.flag_keys());
    let keys = 1 + count + flag_keys.sum::<usize>();
    let mut command = script(out, hashes, Script::Release, sends_script, keys, count).arg(WAITING_KEY);
    for (name, _) in batch.clone() {
        command = command.arg(name.as_str());
    }
    for (name, release) in batch.clone() {
        if release.renews_fence_ttl {
            command = command.fence_key(name);
        }
        if release.forced {
            command = command.taken_key(name, &release.token).arg(EPOCH_KEY);
        }
    }
    for (_, release) in batch {
        let token = &release.token;
        command = match (release.renews_fence_ttl, release.quiet, release.forced) {
            (false, false, false) => command.token(token),
            (renews, quiet, forced) => {
                let flag = |set, flag| if set { flag } else { &b""[..] };
                command.parts(&[token.as_bytes(), flag(renews, b"+"), flag(quiet, b"-"), flag(forced, b"!")])
            }
        };
    }
}

/// An extend, a stamp or a repair as its script takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateCall {
    pub(crate) token: Token,
    pub(crate) kind: UpdateKind,
    /// Comes back with the answer, to prove that it belongs to this call.
    pub(crate) call_id: u64,
    /// Whether the script's text is sent instead of its hash, because the server does not have it.
    pub(crate) sends_script: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum UpdateKind {
    Extend {
        ttl: Duration,
    },
    Stamp {
        at_least: Fence,
    },
    /// Gives a held lock back to a server that does not have it.
    Repair,
}

/// Updates the lock that `command` names.
pub(crate) fn update(out: &mut Vec<u8>, hashes: &Hashes, command: &Command, call: &UpdateCall) {
    let (which, number) = match (call.kind, command) {
        (UpdateKind::Repair, Command::Acquire(repair)) => return self::repair(out, hashes, call, repair),
        // Only an acquire repairs.
        (UpdateKind::Repair, _) => return,
        (UpdateKind::Extend { ttl }, _) => (Script::Extend, millis(ttl)),
        (UpdateKind::Stamp { at_least }, _) => (Script::Stamp, at_least.get()),
    };
    let is_extend = which == Script::Extend;
    let mut call_bytes = script(out, hashes, which, call.sends_script, 2 + usize::from(is_extend), 3)
        .arg(command.name().as_str())
        .fence_key(command.name());
    if is_extend {
        call_bytes = call_bytes.taken_key(command.name(), &call.token);
    }
    call_bytes.token(&call.token).number(number).number(call.call_id);
}

fn repair(out: &mut Vec<u8>, hashes: &Hashes, call: &UpdateCall, repair: &Acquire) {
    script(out, hashes, Script::Repair, call.sends_script, 3, 4)
        .arg(repair.name.as_str())
        .fence_key(&repair.name)
        .taken_key(&repair.name, &call.token)
        .number(millis(repair.ttl))
        .number(call.call_id)
        .arg(repair.value())
        .number(repair.proposal.get());
}

/// Three plain commands: what is stored, for how long, and the counter.
pub(crate) fn inspect(out: &mut Vec<u8>, name: &Name) {
    Encoder::command(out, 4).arg("GETRANGE").arg(name.as_str()).number(0).number(PREVIEW - 1);
    Encoder::command(out, 2).arg("PTTL").arg(name.as_str());
    Encoder::command(out, 3).arg("ZSCORE").fence_key(name).arg("f");
}

/// Subscribes to hints about `name`, or unsubscribes. Exactly one confirmation or error comes back.
pub(crate) fn hints(out: &mut Vec<u8>, name: &str, wanted: bool) {
    Encoder::command(out, 2).arg(if wanted { "SUBSCRIBE" } else { "UNSUBSCRIBE" }).free_channel(name);
}

/// Records that a client waits, for every client that releases.
pub(crate) fn waiting(out: &mut Vec<u8>) {
    Encoder::command(out, 5).arg("SET").arg(WAITING_KEY).arg("1").arg("PX").number(millis(WAITING_TTL));
}

pub(crate) fn raw(out: &mut Vec<u8>, args: &[&[u8]]) {
    let mut command = Encoder::command(out, args.len());
    for arg in args {
        command = command.arg(arg);
    }
}

/// The start of a script call: by its hash, or with its text if the server does not have it.
fn script<'a>(
    out: &'a mut Vec<u8>,
    hashes: &Hashes,
    script: Script,
    sends_script: bool,
    keys: usize,
    args: usize,
) -> Encoder<'a> {
    let command = Encoder::command(out, 3 + keys + args);
    let command = if sends_script {
        command.arg("EVAL").arg(script.body())
    } else {
        command.arg("EVALSHA").arg(hashes.of(script))
    };
    command.number(keys as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorlock_core::{Owner, StoredLock, Wall};

    /// `words` as a server expects them.
    fn encoded(words: &[&str]) -> String {
        let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), words.collect::<String>())
    }

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_vote_stores_the_value_that_every_node_stores() {
        let vote = Acquire {
            name: Name::new("a").unwrap(),
            token: Token::from_random([7; 16]),
            proposal: Fence::new(1_763_240_000_000_000),
            label: StoredLock::label(&Owner {
                who: "ann@web1".to_owned(),
                pid: 42,
                since: Wall::from_micros(1_763_240_000_000_000).into(),
                reason: Some("nightly".to_owned()),
            }),
            ttl: Duration::from_secs(3),
            tied: false,
            repair: false,
        };
        let set = encoded(&["SET", "a", &vote.value(), "NX", "PX", "3000"]);
        let raise = encoded(&["ZADD", "quorlock:fence:{a}", "GT", "CH", "1763240000000000", "f"]);
        assert_eq!(written(|out| acquire(out, &vote)), set + &raise);
        let plain = Acquire { proposal: Fence::NONE, ..vote };
        let set = encoded(&["SET", "a", &plain.value(), "NX", "PX", "3000"]);
        assert_eq!(written(|out| acquire(out, &plain)), set);
    }

    #[test]
    fn a_release_says_what_else_is_to_be_done() {
        let hashes = Hashes::default();
        let token = Token::from_random([7; 16]);
        for flags in ["", "+", "-", "!", "+-", "+!", "-!", "+-!"] {
            let call = ReleaseCall {
                token,
                renews_fence_ttl: flags.contains('+'),
                quiet: flags.contains('-'),
                forced: flags.contains('!'),
            };
            let (name, expected) = (Name::new("a").unwrap(), format!("{token}{flags}"));
            let mut words = vec!["EVALSHA", "", "", "quorlock:waiting", "a"];
            let taken = format!("quorlock:taken:{{a}}:{token}");
            if call.renews_fence_ttl {
                words.push("quorlock:fence:{a}");
            }
            if call.forced {
                words.extend([taken.as_str(), "quorlock:epoch"]);
            }
            let keys = (words.len() - 3).to_string();
            words[2] = &keys;
            words.push(&expected);
            let expected = encoded(&words);
            assert_eq!(written(|out| releases(out, &hashes, [(&name, &call)].into_iter(), false)), expected);
        }
    }
}
