//! What one name's record becomes by a command: the rules that the memory node and the file node share.

use crate::error::node::NodeError;
use crate::node::command::{Acquire, Command, Content, Denied, Done, Reply, Tie, View};
use quorlock_core::{Fence, Moment, Token};
use std::time::Duration;

/// What a node keeps for one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The highest number that was ever proposed or stamped. It outlives every hold.
    pub(crate) counter: Option<Fence>,
    pub(crate) hold: Option<Hold>,
}

/// The hold of one client on the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
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
    /// Executes `command`. A hold that is over must have been dropped before.
    pub(crate) fn execute(&mut self, command: &Command, now: Moment, place: &Place) -> Reply {
        match command {
            Command::Acquire(acquire) => self.acquire(acquire, now, place),
            Command::Stamp { token, at_least, .. } => self.stamp(token, *at_least),
            Command::Extend { token, ttl, tie, .. } => match self.held_by(token) {
                Ok(hold) => {
                    hold.extend(now, *ttl);
                    match tie {
                        Tie::Here => hold.tied = place.process,
                        Tie::Loose => hold.tied = None,
                        Tie::AsBefore => {}
                    }
                    Reply::Done(Done::Plain)
                }
                Err(denied) => Reply::Denied(denied),
            },
            Command::Release { token, .. } => match self.held_by(token) {
                Ok(_) => {
                    self.hold = None;
                    Reply::Done(Done::Plain)
                }
                Err(denied) => Reply::Denied(denied),
            },
            Command::Inspect { .. } => Reply::Done(Done::Seen(self.view(now).into())),
        }
    }

    fn acquire(&mut self, acquire: &Acquire, now: Moment, place: &Place) -> Reply {
        let raised = acquire.proposal == Fence::NONE || self.raise(acquire.proposal);
        if self.hold.is_some() {
            return Reply::Denied(Denied::Taken);
        }
        self.hold = Some(Hold {
            value: acquire.value(),
            deadline: now + acquire.ttl,
            span: acquire.ttl,
            boot: place.boot,
            tied: place.process.filter(|_| acquire.tied),
        });
        Reply::Done(if raised { Done::Raised } else { Done::Unraised { counter: self.counter } })
    }

    fn stamp(&mut self, token: &Token, at_least: Fence) -> Reply {
        let counter = self.counter;
        let hold = match self.held_by(token) {
            Ok(hold) => hold,
            Err(denied) => return Reply::Denied(denied),
        };
        let above = counter.map_or(Some(at_least), Fence::next);
        let Some(to) = above.map(|above| above.max(at_least)) else {
            let message = "the fence counter of this name is used up".into();
            return Reply::failed(NodeError::Server { message });
        };
        hold.set_fence(to);
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

    fn held_by(&mut self, token: &Token) -> Result<&mut Hold, Denied> {
        match &mut self.hold {
            None => Err(Denied::Gone),
            Some(hold) if hold.value.split(' ').next() != Some(token.as_str()) => Err(Denied::Taken),
            Some(hold) => Ok(hold),
        }
    }

    fn view(&self, now: Moment) -> View {
        View {
            content: self
                .hold
                .as_ref()
                .map_or(Content::Free, |hold| Content::from_value(hold.value.as_bytes())),
            left: self.hold.as_ref().map(|hold| now.until(hold.deadline)),
            counter: self.counter,
        }
    }
}

impl Hold {
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
