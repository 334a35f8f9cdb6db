//! What one name's record becomes by a command: the rules that the memory node and the file node share.

use crate::error::node::NodeError;
use crate::node::command::{
    Acquire, AcquireKind, Command, Content, Denied, Done, RecordSlots, RefusedSlots, Reply, SlotsView, Tie,
    View,
};
use quorlock_core::{Fence, Mode, Moment, StoredLock, Token};
use std::time::Duration;

/// What a node keeps for one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The highest number that was ever proposed or stamped. It outlives every hold.
    pub(crate) counter: Option<Fence>,
    /// The exclusive hold, or the shared ones.
    pub(crate) holds: Vec<Hold>,
    /// Until when new shared holders are refused, because a client waits to hold the name exclusively.
    pub(crate) no_readers_until: Option<Moment>,
    /// How many slots the semaphore of this name has, if it is one.
    pub(crate) slots: Option<SlotsRecord>,
}

/// What a node keeps for a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotsRecord {
    /// How many slots it has.
    pub(crate) count: u32,
    /// The client that was refused last.
    pub(crate) refused: Option<RefusedClient>,
}

/// A client that was refused because it counts other slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusedClient {
    pub(crate) count: u32,
    pub(crate) at: Moment,
    pub(crate) boot: BootId,
}

/// The hold of one client on the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) mode: Mode,
    /// Token, fence and label, as [`Acquire::value`] writes them.
    pub(crate) value: String,
    pub(crate) deadline: Moment,
    /// How far ahead the deadline was when it was set: it can never be further ahead in the same boot.
    pub(crate) span: Duration,
    pub(crate) boot: BootId,
    /// The process that the hold ends with.
    pub(crate) tied: Option<Process>,
}

/// Which start of the machine a moment belongs to; 0 where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BootId(pub(crate) u128);

impl BootId {
    const UNKNOWN: Self = Self(0);

    /// Whether both are known and differ.
    fn differs(self, other: Self) -> bool {
        self != Self::UNKNOWN && other != Self::UNKNOWN && self != other
    }
}

/// One process, distinct from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// When it started, in the kernel's own count; 0 if the system does not report it.
    pub(crate) started: u64,
    /// The namespace in which `pid` means anything (containers have their own); 0 if the system does not
    /// report it.
    pub(crate) space: u64,
}

/// Where a command is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) boot: BootId,
    /// The process to tie holds to; `None` where the node cannot see processes.
    pub(crate) process: Option<Process>,
}

impl Record {
    /// The most shared holders of one name.
    pub(crate) const MAX_READERS: usize = 256;
    /// The longest time for which readers are held off at once.
    const MAX_HOLD_OFF: Duration = Duration::from_secs(10);

    /// Drops the holds that `is_over` finds to be over.
    pub(crate) fn drop_ended(&mut self, is_over: impl Fn(&Hold) -> bool) {
        self.holds.retain(|hold| !is_over(hold));
    }

    /// Whether a client holds the name.
    pub(crate) fn is_held(&self) -> bool {
        !self.holds.is_empty()
    }

    /// Executes `command`. Holds that are over must have been dropped before.
    pub(crate) fn execute(&mut self, command: &Command, now: Moment, place: &Place) -> Reply {
        match command {
            Command::Acquire(acquire) => self.acquire(acquire, now, place),
            Command::Stamp { token, at_least, .. } => self.stamp(token, *at_least),
            Command::Extend { token, ttl, tie, mode, .. } => match self.held_by(token) {
                Ok(at) if *mode == Mode::Exclusive && self.holds[at].mode != Mode::Exclusive => {
                    Reply::Denied(Denied::Gone)
                }
                Ok(at) => {
                    self.holds[at].extend(now, *ttl);
                    match tie {
                        Tie::Here => self.holds[at].tied = place.process,
                        Tie::Loose => self.holds[at].tied = None,
                        Tie::AsBefore => {}
                    }
                    Reply::Done(Done::Plain)
                }
                Err(denied) => Reply::Denied(denied),
            },
            Command::Downgrade { token, at_most, fence, .. } => match self.held_by(token) {
                Ok(at) if self.holds[at].fence() <= *at_most => {
                    self.holds[at].mode = Mode::Shared;
                    self.holds[at].set_fence(*fence);
                    Reply::Done(Done::Plain)
                }
                Ok(_) => Reply::Denied(Denied::Taken),
                Err(denied) => Reply::Denied(denied),
            },
            Command::Release { token, .. } => self.done(token, |record, at| {
                record.holds.remove(at);
            }),
            Command::HoldOffReaders { ttl, .. } => {
                self.no_readers_until = (!ttl.is_zero()).then(|| now + (*ttl).min(Self::MAX_HOLD_OFF));
                Reply::Done(Done::Plain)
            }
            Command::Slots { count, record, .. } => {
                let view = self.slots_view(*count, *record, now, place);
                Reply::Done(Done::Slots(Box::new(view)))
            }
            Command::Inspect { .. } => Reply::Done(Done::Seen(self.view(now).into())),
        }
    }

    /// Records what `record` says of a client that counts `count` slots. Which are taken is for the node to say.
    fn slots_view(&mut self, count: u32, record: RecordSlots, now: Moment, place: &Place) -> SlotsView {
        match (record, &mut self.slots) {
            (RecordSlots::Replace, _) | (RecordSlots::IfNone, None) => {
                self.slots = Some(SlotsRecord { count, refused: None });
            }
            (RecordSlots::Refused, Some(stored)) => {
                stored.refused = Some(RefusedClient { count, at: now, boot: place.boot });
            }
            _ => {}
        }
        // Moments of another boot cannot be compared.
        let refused = self.slots.and_then(|stored| stored.refused);
        let refused = refused.filter(|refused| !place.boot.differs(refused.boot) && refused.at <= now);
        SlotsView {
            recorded: self.slots.map(|stored| stored.count),
            refused: refused.map(|refused| RefusedSlots::new(refused.count, now.since(refused.at))),
            taken: Vec::new(),
        }
    }

    fn acquire(&mut self, acquire: &Acquire, now: Moment, place: &Place) -> Reply {
        let raised = acquire.proposal == Fence::NONE || self.raise(acquire.proposal);
        if !self.admits(acquire, now) {
            return Reply::Denied(Denied::Taken);
        }
        if self.holds.len() >= Self::MAX_READERS {
            let message = format!("{} clients share the name already", self.holds.len()).into();
            return Reply::failed(NodeError::Server { message });
        }
        self.holds.retain(|hold| !hold.has_token(&acquire.token));
        self.holds.push(Hold {
            mode: acquire.mode,
            value: acquire.value(),
            deadline: now + acquire.ttl,
            span: acquire.ttl,
            boot: place.boot,
            tied: place.process.filter(|_| acquire.tied),
        });
        Reply::Done(if raised { Done::Raised } else { Done::Unraised { counter: self.counter } })
    }

    /// Whether `acquire` conflicts with no hold, and no client that waits to write comes first.
    fn admits(&self, acquire: &Acquire, now: Moment) -> bool {
        let is_ours = |hold: &Hold| hold.has_token(&acquire.token);
        match (acquire.kind, acquire.mode) {
            // It needs its own shared hold, and no other.
            (AcquireKind::Upgrade, _) => self.is_held() && self.holds.iter().all(is_ours),
            // One that arrives twice changes nothing.
            (_, Mode::Shared) if self.holds.iter().any(is_ours) => false,
            // Where an upgrade was not executed, our shared hold becomes exclusive.
            (AcquireKind::Repair, Mode::Exclusive) => {
                self.holds.iter().all(|hold| is_ours(hold) && hold.mode == Mode::Shared)
            }
            (AcquireKind::Vote, Mode::Shared) if self.holds_off_readers(now) => false,
            (_, mode) => !self.holds.iter().any(|hold| hold.mode.conflicts_with(mode)),
        }
    }

    /// Whether a client waits to hold the name exclusively. A time too far ahead is of another boot.
    fn holds_off_readers(&self, now: Moment) -> bool {
        self.no_readers_until
            .map(|until| now.until(until))
            .is_some_and(|left| !left.is_zero() && left <= Self::MAX_HOLD_OFF)
    }

    fn stamp(&mut self, token: &Token, at_least: Fence) -> Reply {
        let at = match self.held_by(token) {
            Ok(at) => at,
            Err(denied) => return Reply::Denied(denied),
        };
        let above = self.counter.map_or(Some(at_least), Fence::next);
        let Some(to) = above.map(|above| above.max(at_least)) else {
            let message = "the fence counter of this name is used up".into();
            return Reply::failed(NodeError::Server { message });
        };
        self.holds[at].set_fence(to);
        self.counter = Some(to);
        Reply::Done(Done::Stamped { to })
    }

    /// Whether the counter was below `fence`, and is `fence` now.
    fn raise(&mut self, fence: Fence) -> bool {
        let below = self.counter.is_none_or(|counter| counter < fence);
        if below {
            self.counter = Some(fence);
        }
        below
    }

    /// Does `change` to the hold of `token`.
    fn done(&mut self, token: &Token, change: impl FnOnce(&mut Self, usize)) -> Reply {
        match self.held_by(token) {
            Ok(at) => {
                change(self, at);
                Reply::Done(Done::Plain)
            }
            Err(denied) => Reply::Denied(denied),
        }
    }

    /// Where the hold of `token` is.
    fn held_by(&self, token: &Token) -> Result<usize, Denied> {
        match self.holds.iter().position(|hold| hold.has_token(token)) {
            Some(at) => Ok(at),
            // Other shared holders do not keep a reader from getting its hold back.
            None if self.holds.iter().all(|hold| hold.mode == Mode::Shared) => Err(Denied::Gone),
            None => Err(Denied::Taken),
        }
    }

    fn view(&self, now: Moment) -> View {
        View { content: self.content(), left: self.left(now), counter: self.counter }
    }

    fn content(&self) -> Content {
        match self.holds.as_slice() {
            [] => Content::Free,
            [hold] if hold.mode == Mode::Exclusive => Content::from_value(hold.value.as_bytes()),
            readers => {
                let mut readers: Vec<&Hold> = readers.iter().collect();
                readers.sort_by_key(|hold| hold.deadline);
                let stored = readers.iter().filter_map(|hold| StoredLock::parse(hold.value.as_bytes()));
                Content::Shared(stored.take(View::MAX_READERS).collect())
            }
        }
    }

    /// How long until the last hold ends.
    fn left(&self, now: Moment) -> Option<Duration> {
        self.holds.iter().map(|hold| now.until(hold.deadline)).max()
    }
}

/// The reply to [`Command::Slots`], with which slots are `taken`.
pub(crate) fn with_taken(reply: Reply, taken: Vec<bool>) -> Reply {
    match reply {
        Reply::Done(Done::Slots(mut view)) => {
            view.taken = taken;
            Reply::Done(Done::Slots(view))
        }
        reply => reply,
    }
}

impl Hold {
    fn fence(&self) -> Fence {
        let number = self.value.split(' ').nth(1).and_then(|number| number.parse().ok());
        number.map_or(Fence::NONE, Fence::new)
    }

    fn has_token(&self, token: &Token) -> bool {
        self.value.split(' ').next() == Some(token.as_str())
    }

    /// Whether its time is over, or the machine has rebooted since: nothing that held it then still runs.
    pub(crate) fn has_lapsed(&self, now: Moment, boot: BootId) -> bool {
        // If a boot is not known, a deadline too far ahead still shows that the boot clock started again.
        let from_another_boot = boot.differs(self.boot) || now.until(self.deadline) > self.span;
        from_another_boot || now >= self.deadline
    }

    /// Replaces the fence that was proposed by `fence`.
    fn set_fence(&mut self, fence: Fence) {
        let mut words = self.value.splitn(3, ' ');
        if let (Some(token), Some(_), Some(label)) = (words.next(), words.next(), words.next()) {
            self.value = format!("{token} {fence} {label}");
        }
    }

    fn extend(&mut self, now: Moment, ttl: Duration) {
        self.deadline = self.deadline.max(now + ttl);
        self.span = now.until(self.deadline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_boot(Duration::from_secs(seconds))
    }

    fn hold(deadline: u64, span: u64, boot: u128) -> Hold {
        Hold {
            mode: Mode::Exclusive,
            value: String::new(),
            deadline: at(deadline),
            span: Duration::from_secs(span),
            boot: BootId(boot),
            tied: None,
        }
    }

    #[test]
    fn a_hold_ends_with_its_deadline_or_with_the_boot() {
        let hold = hold(110, 10, 1);
        assert!(!hold.has_lapsed(at(109), BootId(1)));
        assert!(hold.has_lapsed(at(110), BootId(1)));
        assert!(hold.has_lapsed(at(105), BootId(2)));
    }

    #[test]
    fn a_boot_clock_that_began_anew_ends_a_hold_although_no_boot_is_named() {
        assert!(hold(1_000_000, 10, 0).has_lapsed(at(60), BootId(0)));
        assert!(!hold(1_000_000, 10, 0).has_lapsed(at(999_995), BootId(0)));
    }

    /// Goal: a container that hides the kernel's boot id does not take the locks of the others for those
    /// of an earlier boot.
    #[test]
    fn a_boot_that_is_not_known_is_not_another_boot() {
        for (holder, reader) in [(1, 0), (0, 1)] {
            assert!(!hold(110, 10, holder).has_lapsed(at(109), BootId(reader)));
            assert!(hold(110, 10, holder).has_lapsed(at(110), BootId(reader)));
            assert!(hold(110, 10, holder).has_lapsed(at(60), BootId(reader)), "the boot clock began anew");
        }
    }
}
