//! The commands of a lock as the server reads them.

use crate::node::redis::protocol::encode::{EPOCH_KEY, Encoder, WAITING_KEY, millis};
use crate::node::redis::protocol::scripts::{Hashes, Script};
use crate::node::{Acquire, Command, RecordSlots, View};
use quorlock_core::{Fence, Mode, Name, Token};
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
    /// Whether it may be held shared.
    pub(crate) may_be_shared: bool,
    /// Whether the server must refuse to take the lock back.
    pub(crate) forced: bool,
}

impl ReleaseCall {
    /// How many keys its flags need.
    fn flag_keys(&self) -> usize {
        usize::from(self.renews_fence_ttl) + usize::from(self.may_be_shared) + 2 * usize::from(self.forced)
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
        if release.may_be_shared {
            command = command.readers_key(name);
        }
        if release.forced {
            command = command.taken_key(name, &release.token).arg(EPOCH_KEY);
        }
    }
    for (_, release) in batch {
        let token = &release.token;
        let flags = [release.renews_fence_ttl, release.quiet, release.may_be_shared, release.forced];
        command = if flags == [false; 4] {
            command.token(token)
        } else {
            let flag = |at: usize, flag| if flags[at] { flag } else { &b""[..] };
            command.parts(&[token.as_bytes(), flag(0, b"+"), flag(1, b"-"), flag(2, b"s"), flag(3, b"!")])
        };
    }
}

/// A command that a script of its own executes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateCall {
    pub(crate) kind: UpdateKind,
    /// Comes back with the answer, to prove that it belongs to this call.
    pub(crate) call_id: u64,
    /// Whether the script's text is sent instead of its hash, because the server does not have it.
    pub(crate) sends_script: bool,
}

/// Which script executes a command, and how its answer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateKind {
    Extend,
    Stamp,
    /// Gives a held lock back to a server that does not have it.
    Repair,
    /// The vote for a shared hold, or for an exclusive one by a client that holds the name shared.
    Vote,
    Downgrade,
    /// The shared holders of a name.
    Readers,
    Slots,
}

/// The script that executes `command`; `None` for plain commands and releases.
pub(crate) fn script_of(command: &Command) -> Option<Script> {
    Some(match command {
        Command::Acquire(acquire) if acquire.mode == Mode::Shared => Script::Share,
        Command::Acquire(acquire) if acquire.is_repair() => Script::Repair,
        Command::Acquire(_) => Script::Upgrade,
        Command::Extend { .. } => Script::Extend,
        Command::Stamp { .. } => Script::Stamp,
        Command::Downgrade { .. } => Script::Downgrade,
        Command::Inspect { .. } => Script::Readers,
        Command::Slots { .. } => Script::Slots,
        Command::Release { .. } | Command::HoldOffReaders { .. } => return None,
    })
}

/// Encodes `command` as the script takes it.
pub(crate) fn update(out: &mut Vec<u8>, hashes: &Hashes, command: &Command, call: &UpdateCall) {
    let start = |out, script, keys, args| self::script(out, hashes, script, call.sends_script, keys, args);
    match command {
        Command::Acquire(acquire) if acquire.mode == Mode::Shared => {
            let purpose = if acquire.is_repair() { "r" } else { "v" };
            start(out, Script::Share, 5, 6)
                .arg(acquire.name.as_str())
                .fence_key(&acquire.name)
                .readers_key(&acquire.name)
                .writer_key(&acquire.name)
                .taken_key(&acquire.name, &acquire.token)
                .token(&acquire.token)
                .number(millis(acquire.ttl))
                .number(call.call_id)
                .number(acquire.proposal.get())
                .arg(acquire.label.to_string())
                .arg(purpose);
        }
        Command::Acquire(acquire) if acquire.is_repair() => {
            start(out, Script::Repair, 4, 4)
                .arg(acquire.name.as_str())
                .fence_key(&acquire.name)
                .taken_key(&acquire.name, &acquire.token)
                .readers_key(&acquire.name)
                .number(millis(acquire.ttl))
                .number(call.call_id)
                .arg(acquire.value())
                .number(acquire.proposal.get());
        }
        Command::Acquire(acquire) => {
            start(out, Script::Upgrade, 4, 5)
                .arg(acquire.name.as_str())
                .fence_key(&acquire.name)
                .readers_key(&acquire.name)
                .taken_key(&acquire.name, &acquire.token)
                .token(&acquire.token)
                .number(millis(acquire.ttl))
                .number(call.call_id)
                .number(acquire.proposal.get())
                .arg(acquire.label.to_string());
        }
        Command::Extend { name, token, ttl, mode, may_be_shared, .. } => {
            let may_be_shared = usize::from(*may_be_shared);
            let mut command = start(out, Script::Extend, 3 + may_be_shared, 3 + may_be_shared)
                .arg(name.as_str())
                .fence_key(name)
                .taken_key(name, token);
            if may_be_shared > 0 {
                command = command.readers_key(name);
            }
            command = command.token(token).number(millis(*ttl)).number(call.call_id);
            if may_be_shared > 0 {
                command.arg(mode.kind());
            }
        }
        Command::Stamp { name, token, at_least } => {
            start(out, Script::Stamp, 3, 3)
                .arg(name.as_str())
                .fence_key(name)
                .readers_key(name)
                .token(token)
                .number(at_least.get())
                .number(call.call_id);
        }
        Command::Downgrade { name, token, at_most, fence } => {
            start(out, Script::Downgrade, 2, 5)
                .arg(name.as_str())
                .readers_key(name)
                .token(token)
                .number(call.call_id)
                .free_channel(name.as_str())
                .number(at_most.get())
                .number(fence.get());
        }
        Command::Inspect { name } => {
            start(out, Script::Readers, 2, 2)
                .arg(name.as_str())
                .readers_key(name)
                .number(call.call_id)
                .number(View::MAX_READERS as u64);
        }
        Command::Slots { name, count, record } => {
            let mut command = start(out, Script::Slots, 1 + *count as usize, 3).slots_key(name);
            for slot in 0..*count {
                command = command.arg(Name::of_slot(name, slot).as_str());
            }
            let record = match record {
                RecordSlots::Nothing => "n",
                RecordSlots::IfNone => "i",
                RecordSlots::Replace => "r",
                RecordSlots::Refused => "d",
            };
            command.number(call.call_id).number(u64::from(*count)).arg(record);
        }
        // Plain commands, or a batch of their own.
        Command::Release { .. } | Command::HoldOffReaders { .. } => {}
    }
}

/// Keeps further readers out, or lets them in again.
pub(crate) fn hold_off_readers(out: &mut Vec<u8>, name: &Name, ttl: Duration) {
    match millis(ttl) {
        0 => Encoder::command(out, 2).arg("DEL").writer_key(name),
        ttl => Encoder::command(out, 5).arg("SET").writer_key(name).arg("1").arg("PX").number(ttl),
    };
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
            mode: Mode::Exclusive,
            kind: crate::node::AcquireKind::Vote,
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
        for flags in ["", "+", "-", "s", "!", "+-", "+!", "-!", "+-!", "+-s!"] {
            let call = ReleaseCall {
                token,
                renews_fence_ttl: flags.contains('+'),
                quiet: flags.contains('-'),
                may_be_shared: flags.contains('s'),
                forced: flags.contains('!'),
            };
            let (name, expected) = (Name::new("a").unwrap(), format!("{token}{flags}"));
            let mut words = vec!["EVALSHA", "", "", "quorlock:waiting", "a"];
            let taken = format!("quorlock:taken:{{a}}:{token}");
            if call.renews_fence_ttl {
                words.push("quorlock:fence:{a}");
            }
            if call.may_be_shared {
                words.push("quorlock:readers:{a}");
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
