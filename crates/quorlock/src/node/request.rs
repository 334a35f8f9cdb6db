//! One command on its way to one node, and the collection of a round's replies.

use crate::context::injected_bug::{InjectedBug, InjectedBugs};
use crate::context::mutex::Mutex;
use crate::error::node::NodeError;
use crate::node::command::{Command, Denied, Done, Reply};
use quorlock_core::{Name, NameSet, Quorum};
use smallvec::SmallVec;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// One command on its way to one node. It is answered once; dropped without an answer it counts as
/// [`NodeError::Abandoned`].
///
/// All nodes of a round share the command, so that a request is no larger than two words.
#[derive(Debug)]
#[must_use = "a node that does not answer counts as failed"]
pub struct Request {
    round: Arc<RoundReplies>,
    node: u32,
    /// Which of the round's commands it carries.
    part: u8,
    is_open: bool,
}

impl Request {
    /// The request to `node` with the round's command number `part`.
    #[inline]
    pub(crate) fn new(round: &Arc<RoundReplies>, node: usize, part: usize) -> Self {
        // There are 31 nodes and 16 commands at most.
        Self { round: round.clone(), node: node as u32, part: part as u8, is_open: true }
    }

    /// A request and the future of its reply, for nodes that wrap other nodes.
    pub fn channel(command: Command) -> (Self, impl Future<Output = Reply> + Send + 'static) {
        let round = RoundReplies::new(command.into(), WakeThreshold::ONE);
        let request = Self::new(&round, 0, 0);
        let reply = async move {
            let mut replies = Replies::new();
            poll_fn(|context| round.poll_take(context, &mut replies)).await;
            replies.pop().map_or(Reply::failed(NodeError::Abandoned), |(_, reply)| reply)
        };
        (request, reply)
    }

    /// A request without a caller that waits for its answer.
    pub fn without_reply(command: Command) -> Self {
        let round = RoundReplies::new(command.into(), WakeThreshold::ONE);
        Self { round, node: 0, part: 0, is_open: false }
    }

    /// What the node is asked to do.
    #[inline]
    pub fn command(&self) -> &Command {
        self.round.commands.get(self.part as usize)
    }

    /// Hands the reply to the caller. Never blocks.
    #[inline]
    pub fn answer(mut self, reply: Reply) {
        self.push(reply);
    }

    /// Takes the right to answer out; the command stays, for a node that still needs it.
    pub(crate) fn take_responder(&mut self) -> Self {
        let is_open = std::mem::take(&mut self.is_open);
        Self { round: self.round.clone(), node: self.node, part: self.part, is_open }
    }

    #[inline]
    fn push(&mut self, reply: Reply) {
        if std::mem::take(&mut self.is_open) {
            self.round.push(self.node as usize, reply);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.is_open {
            self.push(Reply::failed(NodeError::Abandoned));
        }
    }
}

/// Replies of one round with their nodes' numbers. Five or fewer need no memory of their own.
pub(crate) type Replies = SmallVec<[(usize, Reply); 5]>;

/// How many replies decide a round: this many nodes that did it, or this many that did not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeThreshold {
    done: usize,
    undone: usize,
}

impl WakeThreshold {
    /// Any reply.
    pub(crate) const ONE: Self = Self { done: 1, undone: 1 };

    /// A majority of all nodes, or as many failures as make a majority impossible.
    pub(crate) fn majority(quorum: Quorum) -> Self {
        Self { done: quorum.needed(), undone: quorum.spare() + 1 }
    }

    /// Counts down; whether it is enough.
    fn count(&mut self, reply: &Reply) -> bool {
        let kind = if matches!(reply, Reply::Done(_)) { &mut self.done } else { &mut self.undone };
        *kind = kind.saturating_sub(1);
        self.done == 0 || self.undone == 0
    }
}

/// What one round asks of each node: one command, or one for each of several names.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    first: Command,
    /// Empty in most rounds.
    others: Vec<Command>,
    injected: InjectedBugs,
}

impl Commands {
    /// One command for each name.
    #[inline]
    pub(crate) fn each(names: &NameSet, command: impl Fn(&Name) -> Command) -> Self {
        let first = command(names.first());
        let others = match names.is_single() {
            true => Vec::new(),
            false => names.as_slice()[1..].iter().map(command).collect(),
        };
        Self { first, others, injected: InjectedBugs::default() }
    }

    /// Merges replies as `injected` says.
    #[inline]
    pub(crate) fn inject(&mut self, injected: InjectedBugs) {
        self.injected = injected;
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        1 + self.others.len()
    }

    #[inline]
    fn get(&self, part: usize) -> &Command {
        if part == 0 { &self.first } else { &self.others[part - 1] }
    }
}

impl IntoIterator for Commands {
    type Item = Command;
    type IntoIter = std::iter::Chain<std::iter::Once<Command>, std::vec::IntoIter<Command>>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self.first).chain(self.others)
    }
}

impl From<Command> for Commands {
    fn from(command: Command) -> Self {
        Self { first: command, others: Vec::new(), injected: InjectedBugs::default() }
    }
}

/// The commands of one round, and the replies that were given and not yet taken.
#[derive(Debug)]
pub(crate) struct RoundReplies {
    commands: Commands,
    collected: Mutex<Collected>,
}

#[derive(Debug)]
struct Collected {
    replies: Replies,
    /// What must still come before the reader is woken.
    missing: WakeThreshold,
    reader: Option<Waker>,
    /// Nodes that have answered some of their commands: how many, and the replies so far as one.
    partial: Vec<(usize, usize, Reply)>,
}

impl RoundReplies {
    /// The replies to `commands`. The reader is not woken before `wake_at`: with fewer it cannot decide.
    #[inline]
    pub(crate) fn new(commands: Commands, wake_at: WakeThreshold) -> Arc<Self> {
        let collected =
            Collected { replies: Replies::new(), missing: wake_at, reader: None, partial: Vec::new() };
        Arc::new(Self { commands, collected: Mutex::new(collected) })
    }

    #[inline]
    pub(crate) fn commands(&self) -> &Commands {
        &self.commands
    }

    #[inline]
    fn push(&self, node: usize, reply: Reply) {
        let reader = {
            let mut collected = self.collected.lock();
            let Some(reply) = collected.complete(node, reply, &self.commands) else { return };
            let is_enough = collected.missing.count(&reply);
            collected.replies.push((node, reply));
            if is_enough { collected.reader.take() } else { None }
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Takes all replies that have come, the oldest first, in exchange for the empty `into`. If there are none,
    /// the reader is woken once there are enough.
    #[inline]
    pub(crate) fn poll_take(&self, context: &Context<'_>, into: &mut Replies) -> Poll<()> {
        let mut collected = self.collected.lock();
        if collected.replies.is_empty() {
            collected.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        std::mem::swap(&mut collected.replies, into);
        Poll::Ready(())
    }
}

impl Collected {
    /// The reply of `node` as a whole, once it has answered all of its `commands`.
    #[inline]
    fn complete(&mut self, node: usize, reply: Reply, commands: &Commands) -> Option<Reply> {
        if commands.others.is_empty() {
            return Some(reply);
        }
        let partial = &mut self.partial;
        match partial.iter().position(|(known, ..)| *known == node) {
            Some(at) => {
                let (_, answered, before) = partial.swap_remove(at);
                let merged = match merge_wrongly(commands.injected, &before, &reply) {
                    Some(wrong) => wrong,
                    None => merge(before, reply),
                };
                if answered + 1 == commands.len() {
                    return Some(merged);
                }
                partial.push((node, answered + 1, merged));
            }
            None => partial.push((node, 1, reply)),
        }
        None
    }
}

/// The replies of one node about two names as one: a node agrees only if it agrees to every name.
fn merge(one: Reply, other: Reply) -> Reply {
    match (one, other) {
        (failed @ Reply::Failed(_), _) | (_, failed @ Reply::Failed(_)) => failed,
        (taken @ Reply::Denied(Denied::Taken), _) | (_, taken @ Reply::Denied(Denied::Taken)) => taken,
        (gone @ Reply::Denied(_), _) | (_, gone @ Reply::Denied(_)) => gone,
        (Reply::Done(one), Reply::Done(other)) => Reply::Done(merge_done(one, other)),
    }
}

/// What an injected bug makes of the replies of one node about two names.
fn merge_wrongly(injected: InjectedBugs, one: &Reply, other: &Reply) -> Option<Reply> {
    let done = match (one, other) {
        (Reply::Done(done), Reply::Denied(_)) | (Reply::Denied(_), Reply::Done(done)) => done,
        (Reply::Done(Done::Raised), Reply::Done(Done::Unraised { .. }))
        | (Reply::Done(Done::Unraised { .. }), Reply::Done(Done::Raised))
            if injected.is_on(InjectedBug::PartialRaise) =>
        {
            return Some(Reply::Done(Done::Raised));
        }
        _ => return None,
    };
    let is_wrong = match done {
        Done::Raised | Done::Unraised { .. } => injected.is_on(InjectedBug::PartialSet),
        Done::Plain => injected.is_on(InjectedBug::PartialExtend),
        _ => false,
    };
    is_wrong.then(|| Reply::Done(done.clone()))
}

fn merge_done(one: Done, other: Done) -> Done {
    let highest = |done: &Done| match done {
        Done::Stamped { to } => Some(*to),
        Done::StampedUnevenly { highest } => Some(*highest),
        _ => None,
    };
    if let (Some(one_to), Some(other_to)) = (highest(&one), highest(&other)) {
        return if one == other { one } else { Done::StampedUnevenly { highest: one_to.max(other_to) } };
    }
    match (one, other) {
        (Done::Unraised { counter: one }, Done::Unraised { counter: other }) => {
            Done::Unraised { counter: one.max(other) }
        }
        (unraised @ Done::Unraised { .. }, _) | (_, unraised @ Done::Unraised { .. }) => unraised,
        (Done::Plain, _) | (_, Done::Plain) => Done::Plain,
        (one, _) => one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorlock_core::Fence;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Goal: a node that admitted only some names of a set, or raised only some of their counters, does not
    /// count as if it had done all.
    #[test]
    fn a_node_agrees_to_several_names_only_if_it_agrees_to_each() {
        let done = |done| Reply::Done(done);
        let unraised = |counter: u64| Done::Unraised { counter: Some(Fence::new(counter)) };
        let stamped = |to: u64| done(Done::Stamped { to: Fence::new(to) });
        let table = [
            (done(Done::Raised), done(Done::Raised), "Done(Raised)"),
            (done(Done::Raised), done(unraised(7)), "Done(Unraised { counter: Some(Fence(7)) })"),
            (done(unraised(9)), done(unraised(7)), "Done(Unraised { counter: Some(Fence(9)) })"),
            (done(Done::Raised), Reply::Denied(Denied::Taken), "Denied(Taken)"),
            (Reply::Denied(Denied::Gone), done(Done::Plain), "Denied(Gone)"),
            (Reply::Denied(Denied::Gone), Reply::Denied(Denied::Taken), "Denied(Taken)"),
            (Reply::Denied(Denied::Taken), Reply::failed(NodeError::Abandoned), "Failed(Abandoned)"),
            (stamped(7), stamped(7), "Done(Stamped { to: Fence(7) })"),
            (stamped(7), stamped(9), "Done(StampedUnevenly { highest: Fence(9) })"),
            (done(Done::Unawaited), done(Done::Plain), "Done(Plain)"),
            (done(Done::Unawaited), done(Done::Unawaited), "Done(Unawaited)"),
        ];
        for (one, other, merged) in table {
            assert_eq!(format!("{:?}", merge(one.clone(), other.clone())), merged);
            assert_eq!(format!("{:?}", merge(other, one)), merged);
        }
    }

    #[test]
    fn the_reader_is_woken_when_there_is_enough_and_for_each_reply_after_that() {
        // y = done, n = not done: how often the reader was woken after each reply
        let table = [
            (5, "yyyyy", [0, 0, 1, 2, 3]),
            (5, "nnyyy", [0, 0, 0, 0, 1]),
            (5, "nynyn", [0, 0, 0, 0, 1]),
            (5, "nnnyy", [0, 0, 1, 2, 3]),
            (4, "nyny", [0, 0, 1, 2, 2]),
            (2, "ny", [1, 2, 2, 2, 2]),
            (1, "y", [1, 1, 1, 1, 1]),
        ];
        for (nodes, replies, woken) in table {
            let command = Command::Inspect { name: Name::new("a").unwrap() };
            let round =
                RoundReplies::new(command.into(), WakeThreshold::majority(Quorum::of(nodes).unwrap()));
            let count = Arc::new(Count::default());
            let waker = Waker::from(count.clone());
            let context = Context::from_waker(&waker);
            let mut taken = Replies::new();
            for (node, reply) in replies.chars().enumerate() {
                assert!(round.poll_take(&context, &mut taken).is_pending());
                let failed = Reply::failed(NodeError::Abandoned);
                round.push(node, if reply == 'y' { Reply::Done(Done::Plain) } else { failed });
                assert_eq!(count.0.load(Ordering::Relaxed), woken[node], "{replies} at {node}");
                assert!(round.poll_take(&context, &mut taken).is_ready());
                assert_eq!(taken.pop().map(|(from, _)| from), Some(node));
            }
        }
    }
}
