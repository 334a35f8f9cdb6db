//! The commands that a node executes, and its replies.

use crate::error::node::NodeError;
use quorlock_core::{Fence, Label, Mode, Name, StoredLock, Token, printable};
use std::time::Duration;

/// One command to a node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Command {
    /// Vote: take the name if it is free, and raise its counter to the proposal.
    Acquire(Acquire),
    /// If the name still holds `token`: raise its counter to `at_least`, or to one above what it is if
    /// that is more, store the number as the holder's fence, and answer it as [`Done::Stamped`].
    Stamp {
        /// The lock.
        name: Name,
        /// The attempt that holds it.
        token: Token,
        /// The least number to raise to.
        at_least: Fence,
    },
    /// If the name still holds `token`: keep it for `ttl` from now, never for less than before.
    Extend {
        /// The lock.
        name: Name,
        /// The attempt that holds it.
        token: Token,
        /// How long the node shall keep it.
        ttl: Duration,
        /// What becomes of [`Acquire::tied`].
        tie: Tie,
        /// How it must be held. A shared hold is also extended where it is still exclusive, because its
        /// downgrade has not been executed there. An exclusive one is [gone](Denied::Gone) where it is only
        /// shared, because its upgrade has not been executed there.
        mode: Mode,
        /// Whether the name may be held shared. If not, the node need not look for that.
        may_be_shared: bool,
    },
    /// If the name holds `token` exclusively, with a fence of at most `at_most`: hold it shared from now on,
    /// for as long as before. A later upgrade has a higher fence, so a downgrade that arrives behind it
    /// changes nothing.
    Downgrade {
        /// The lock.
        name: Name,
        /// The attempt that holds it.
        token: Token,
        /// The highest fence of the hold that is given up.
        at_most: Fence,
        /// The fence of the hold. An upgrade that failed has stored another one.
        fence: Fence,
    },
    /// If the name still holds `token`: free it, and send a hint to its waiters.
    Release {
        /// The lock.
        name: Name,
        /// The attempt that holds it.
        token: Token,
        /// Whether to send no hint: the name was never held, or the client that takes it next needs none.
        quiet: bool,
        /// What follows the token in the stored value, as far as the holder knows, so that a node can
        /// compare the whole value at once. The name is freed even if something else follows the token.
        stored_after_token: Option<(Fence, Label)>,
        /// Whether the name may be held shared. If not, the node need not look for that.
        may_be_shared: bool,
        /// Whether another process than the one that acquired it releases it. A node that may be one of
        /// several then refuses to extend the token, and a repair with it ([`AcquireKind::Repair`]), for
        /// twice as long as a lock may last, whether it had the lock or not: the process that acquired
        /// it does not know yet, and would keep the lock or bring it back.
        forced: bool,
    },
    /// Refuse new shared holders of the name for `ttl`, because a client waits to hold it exclusively; zero
    /// ends that. Those that hold it go on.
    HoldOffReaders {
        /// The lock.
        name: Name,
        /// For how long.
        ttl: Duration,
    },
    /// Return what is stored under the name. Changes nothing.
    Inspect {
        /// The lock.
        name: Name,
    },
    /// Return how many slots of a semaphore are recorded, and which of the first `count` are taken, as
    /// [`Done::Slots`].
    Slots {
        /// The semaphore.
        name: Name,
        /// How many slots the client counts.
        count: u32,
        /// What is recorded.
        record: RecordSlots,
    },
}

impl Command {
    /// The lock or semaphore that the command is about.
    pub fn name(&self) -> &Name {
        match self {
            Command::Acquire(Acquire { name, .. })
            | Command::Stamp { name, .. }
            | Command::Extend { name, .. }
            | Command::Downgrade { name, .. }
            | Command::Release { name, .. }
            | Command::HoldOffReaders { name, .. }
            | Command::Slots { name, .. }
            | Command::Inspect { name } => name,
        }
    }
}

/// The vote that one attempt asks of every node.
///
/// The node takes the name exclusively only if nothing at all is stored under it, and shared only if
/// nothing or other shared holders are. Taken or not, it raises the name's counter to `proposal` if it is
/// below; a node that is never one of several, or that was asked for a shared hold, may leave it unchanged
/// if the name was not taken. Answers: [`Done::Raised`], [`Done::Unraised`], [`Denied::Taken`].
///
/// A proposal of [`Fence::NONE`] leaves the counter alone, and a name that was taken is answered by
/// [`Done::Raised`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// The lock.
    pub name: Name,
    /// New for every attempt.
    pub token: Token,
    /// The fence that the attempt proposes.
    pub proposal: Fence,
    /// Who acquires it, since when and why.
    pub label: Label,
    /// How long the node shall keep it.
    pub ttl: Duration,
    /// Whether the lock ends with this process, where the node can see that (the file node).
    pub tied: bool,
    /// How the name is to be held.
    pub mode: Mode,
    /// Why the node is asked.
    pub kind: AcquireKind,
}

/// Why a node is asked to take a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireKind {
    /// For its vote.
    Vote,
    /// For its vote for an exclusive hold by a client that holds the name shared, with the same token. The
    /// node takes it if no other client holds it there.
    Upgrade,
    /// To repair the node: it lacks a lock which is held already, or has an exclusive one only shared. Sent
    /// to nodes that may not vote, too; the answer is no vote.
    Repair,
}

impl Acquire {
    /// The value to store.
    pub fn value(&self) -> String {
        format!("{} {} {}", self.token, self.proposal, self.label)
    }

    /// Whether it repairs a node.
    pub fn is_repair(&self) -> bool {
        self.kind == AcquireKind::Repair
    }
}

/// What an extension does to the tie between a lock and a process, where the node can see processes (the
/// file node).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tie {
    /// The lock ends with this process from now on.
    Here,
    /// The lock outlives every process, until its time is over.
    Loose,
    /// The tie stays as it is: the client that extends is not the holder itself.
    AsBefore,
}

/// What a node answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// It did what was asked.
    Done(Done),
    /// It is healthy, but did not do it.
    Denied(Denied),
    /// It is not healthy, or its state is unknown: no vote, and "maybe done" for the undo. Boxed, because
    /// it is rare and all others are small.
    Failed(Box<NodeError>),
}

impl Reply {
    /// No vote, because of `cause`.
    pub fn failed(cause: NodeError) -> Self {
        Reply::Failed(Box::new(cause))
    }
}

/// How a command was done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Done {
    /// Acquire: the name is ours, and we strictly raised the counter to the proposal.
    Raised,
    /// Acquire: the name is ours, but the counter was at the proposal or above.
    Unraised {
        /// The counter, if the node reports it.
        counter: Option<Fence>,
    },
    /// Stamp: the name is still ours, and we strictly raised the counter.
    Stamped {
        /// To this number.
        to: Fence,
    },
    /// Stamps of several names: all are still ours, and we strictly raised their counters, to different
    /// numbers.
    StampedUnevenly {
        /// The highest of them.
        highest: Fence,
    },
    /// Anything else: done.
    Plain,
    /// Release: done, and no process waits for the name there.
    Unawaited,
    /// Inspect: what is there.
    Seen(Box<View>),
    /// Slots: what is recorded and which are taken.
    Slots(Box<SlotsView>),
}

/// What a node records about the number of slots that a client counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordSlots {
    /// Nothing: the record is only read.
    Nothing,
    /// The number, unless another one is recorded.
    IfNone,
    /// The number, even if another one is recorded.
    Replace,
    /// That a client which counts this number was refused, for operators. The recorded number stays.
    Refused,
}

/// What one node knows of a semaphore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotsView {
    /// How many slots are recorded; `None` if no number is.
    pub recorded: Option<u32>,
    /// The client that was refused last because it counts another number, since the number was recorded.
    pub refused: Option<RefusedSlots>,
    /// For each slot whether it is taken.
    pub taken: Vec<bool>,
}

/// A client that was refused because it counts other slots than are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedSlots {
    /// How many slots it counts.
    pub count: u32,
    /// How long ago it was refused.
    pub ago: Duration,
}

impl RefusedSlots {
    /// A client that counts `count` slots and was refused `ago`.
    pub fn new(count: u32, ago: Duration) -> Self {
        Self { count, ago }
    }
}

/// Why a healthy node did not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denied {
    /// Nothing is stored under the name.
    Gone,
    /// Something else is stored under the name.
    Taken,
}

/// What one node stores for a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// What is stored under the name.
    pub content: Content,
    /// How long the node keeps it; `None` if it is free or never expires.
    pub left: Option<Duration>,
    /// The name's fence counter.
    pub counter: Option<Fence>,
}

impl View {
    /// The most shared holders of one name that a node reports.
    pub const MAX_READERS: usize = 100;
}

/// What is stored under a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// Nothing.
    #[default]
    Free,
    /// A lock of quorlock that is held exclusively.
    Lock(StoredLock),
    /// The shared holders of a lock of quorlock, those that end first before the others; at most
    /// [`View::MAX_READERS`].
    Shared(Vec<StoredLock>),
    /// Something that another program wrote: its first few characters, printable. The rest may be that
    /// program's secret.
    Foreign(String),
}

impl Content {
    /// The longest piece of a foreign value that is kept, in characters.
    const MAX_PREVIEW: usize = 6;

    /// What the bytes stored under a name mean.
    pub fn from_value(value: &[u8]) -> Self {
        match StoredLock::parse(value) {
            Some(stored) => Content::Lock(stored),
            None => {
                let text = String::from_utf8_lossy(value);
                let mut chars = text.chars();
                let mut piece: String = chars.by_ref().take(Self::MAX_PREVIEW).collect();
                if chars.next().is_some() {
                    piece.push_str("..");
                }
                Content::Foreign(printable(&piece, usize::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_value_is_shown_printable_and_only_its_first_characters() {
        for (value, shown) in [
            (b"secret".as_slice(), "secret"),
            (b"secrets", "secret.."),
            (b"\x1b[2J\n\xe2\x80\xae\xff", "\u{fffd}[2J\u{fffd}\u{fffd}.."),
        ] {
            assert_eq!(Content::from_value(value), Content::Foreign(shown.to_owned()));
        }
    }
}
