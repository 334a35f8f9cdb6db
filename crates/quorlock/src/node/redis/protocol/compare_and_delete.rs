//! Releases without the script, if the server has a compare-and-delete of its own and there are no
//! waiters.

use crate::node::redis::protocol::encode::WAITING_KEY;
use crate::node::redis::protocol::encode::{DIGITS, Encoder, decimal};
use crate::node::redis::protocol::resp::Value;
use crate::node::{Command, FastRelease};
use quorlock_core::{Fence, Label, Name, Token};

/// The command that asks which of them a server has.
pub(crate) const WHICH: [&str; 4] = ["COMMAND", "INFO", "DELEX", "DELIFEQ"];

/// The script that sends a hint to the waiters of a name, as the release script does.
const HINT: &str = include_str!("lua/hint.lua");

/// The command that a server has, by its answer to [`WHICH`]. One that does not answer has none.
pub(crate) fn supported(answer: &Value) -> Option<FastRelease> {
    let Value::Array(commands) = answer else { return None };
    let has = |at: usize| matches!(commands.get(at), Some(Value::Array(info)) if !info.is_empty());
    match (has(0), has(1)) {
        (true, _) => Some(FastRelease::Delex),
        (_, true) => Some(FastRelease::Delifeq),
        _ => None,
    }
}

/// Whether a server's releases may go without the script.
#[derive(Debug, Default)]
pub(crate) struct CompareAndDelete {
    command: Option<FastRelease>,
    /// Whether there were no waiters at all when that was last checked. If there are, the script sends
    /// their hint at once.
    no_waiters: bool,
}

impl CompareAndDelete {
    pub(crate) fn new(command: Option<FastRelease>) -> Self {
        Self { command, no_waiters: false }
    }

    /// The command to use right now.
    pub(crate) fn command(&self) -> Option<FastRelease> {
        self.command.filter(|_| self.no_waiters)
    }

    /// Records whether there are waiters.
    pub(crate) fn set_has_waiters(&mut self, has_waiters: bool) {
        self.no_waiters = !has_waiters;
    }

    /// The server refuses the command: only the script is used from now on.
    pub(crate) fn give_up(&mut self) {
        self.command = None;
    }
}

/// Writes `release` as one plain command, which compares the whole value. `false` if the value is not
/// known, and nothing was written.
pub(crate) fn encode(out: &mut Vec<u8>, with: FastRelease, release: &Command) -> bool {
    let Command::Release { name, token, stored_after_token: Some((fence, label)), .. } = release else {
        return false;
    };
    match with {
        FastRelease::Delifeq => Encoder::command(out, 3).arg("DELIFEQ").arg(name.as_str()),
        FastRelease::Delex => Encoder::command(out, 4).arg("DELEX").arg(name.as_str()).arg("IFEQ"),
    }
    .value(token, *fence, label);
    true
}

/// Asks whether any client waits for any name.
pub(crate) fn encode_waiters_check(out: &mut Vec<u8>) {
    Encoder::command(out, 2).arg("EXISTS").arg(WAITING_KEY);
}

/// Notifies the waiters of `name` that the release of `token` freed it. It is rare, so the script is sent
/// whole.
pub(crate) fn hint(out: &mut Vec<u8>, name: &Name, token: &Token) {
    Encoder::command(out, 5)
        .arg("EVAL")
        .arg(HINT)
        .arg("0")
        .free_channel(name.topic().as_str())
        .arg(token.as_bytes());
}

impl Encoder<'_> {
    /// The value that a node stores: the same text as [`Acquire::value`](crate::node::Acquire::value),
    /// without building it first.
    pub(crate) fn value(self, token: &Token, fence: Fence, label: &Label) -> Self {
        let (mut digits, mut since_digits) = ([0; DIGITS], [0; DIGITS]);
        let fence = decimal(fence.get(), &mut digits);
        let (before, since, after) = label.parts();
        let since = decimal(since.as_micros(), &mut since_digits);
        self.parts(&[token.as_bytes(), b" ", fence, b" ", before.as_bytes(), since, after.as_bytes()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorlock_core::{Signature, Wall};
    use std::sync::Arc;

    fn words(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<String> {
        let mut out = Vec::new();
        encode(&mut out);
        let lines = String::from_utf8(out).unwrap();
        lines
            .split_terminator("\r\n")
            .filter(|line| !line.starts_with(['*', '$']))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn the_whole_value_is_compared_by_the_command_that_the_server_has() {
        let (name, token) = (Name::new("a").unwrap(), Token::from_random([7; 16]));
        let label =
            Label::new(Arc::new(Signature::new("ann@web1", 42, Some("nightly"))), Wall::from_micros(5));
        let stored_after_token = Some((Fence::new(9), label));
        let release = Command::Release {
            name,
            token,
            quiet: false,
            stored_after_token,
            may_be_shared: false,
            forced: false,
        };
        let value = format!("{token} 9 ann@web1 42 5 nightly");
        let encoded = |command| words(|out| assert!(encode(out, command, &release)));
        assert_eq!(encoded(FastRelease::Delifeq), ["DELIFEQ", "a", &value]);
        assert_eq!(encoded(FastRelease::Delex), ["DELEX", "a", "IFEQ", &value]);
    }

    #[test]
    fn a_release_of_a_token_alone_takes_the_script() {
        let (name, token) = (Name::new("a").unwrap(), Token::from_random([7; 16]));
        let release = Command::Release {
            name,
            token,
            quiet: false,
            stored_after_token: None,
            may_be_shared: false,
            forced: false,
        };
        assert!(words(|out| assert!(!encode(out, FastRelease::Delifeq, &release))).is_empty());
    }

    #[test]
    fn it_is_used_only_while_no_waiter_is_known() {
        let mut fast = CompareAndDelete::new(Some(FastRelease::Delifeq));
        assert_eq!(fast.command(), None, "waiters were not checked yet");
        fast.set_has_waiters(false);
        assert_eq!(fast.command(), Some(FastRelease::Delifeq));
        fast.set_has_waiters(true);
        assert_eq!(fast.command(), None);
        fast.set_has_waiters(false);
        fast.give_up();
        assert_eq!(fast.command(), None);
    }
}
