//! The fences of one name: unique, and in the order of holding where that is promised.

use quorlock::Mode;
use std::collections::BTreeSet;
use std::time::Duration;

/// The fences of one name.
#[derive(Debug, Default)]
pub(super) struct Fences {
    all: BTreeSet<u64>,
    /// The highest of an exclusive hold.
    highest_exclusive: u64,
    returned: Vec<Returned>,
}

/// A grant that was returned to its client.
#[derive(Clone, Copy, Debug)]
struct Returned {
    at: Duration,
    fence: u64,
    mode: Mode,
}

/// A grant that is about to be returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granting {
    pub(super) called: Duration,
    pub(super) at: Duration,
    pub(super) fence: u64,
    pub(super) mode: Mode,
    /// Whether exclusion is promised, so that holds which exclude each other follow one another.
    pub(super) is_exclusion_promised: bool,
}

/// What is wrong with a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FenceFault {
    HandedOutTwice,
    NotAbove(u64),
}

impl Fences {
    /// Records a grant and checks its fence.
    ///
    /// It must be above each fence that was returned before the call, whatever the modes are. Where exclusion
    /// holds, it must also be above that of every hold which it excludes and which was returned before it.
    pub(super) fn grant(&mut self, granting: Granting) -> Result<(), FenceFault> {
        let Granting { called, at, fence, mode, is_exclusion_promised } = granting;
        let is_new = self.all.insert(fence);
        let is_before = |returned: &&Returned| {
            let is_held_before = is_exclusion_promised && mode.conflicts_with(returned.mode);
            is_held_before || returned.at < called
        };
        let highest = self.returned.iter().filter(is_before).map(|returned| returned.fence).max();
        self.returned.push(Returned { at, fence, mode });
        if mode == Mode::Exclusive {
            self.highest_exclusive = self.highest_exclusive.max(fence);
        }
        match highest.filter(|highest| *highest > fence) {
            _ if !is_new => Err(FenceFault::HandedOutTwice),
            Some(highest) => Err(FenceFault::NotAbove(highest)),
            None => Ok(()),
        }
    }

    /// The highest fence of a hold that excludes one in `mode`.
    pub(super) fn highest_against(&self, mode: Mode) -> u64 {
        match mode {
            Mode::Exclusive => self.all.last().copied().unwrap_or_default(),
            Mode::Shared => self.highest_exclusive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn grant(
        fences: &mut Fences,
        mode: Mode,
        fence: u64,
        (called, at): (u32, u32),
    ) -> Result<(), FenceFault> {
        let (called, at) = (called * SECOND, at * SECOND);
        fences.grant(Granting { called, at, fence, mode, is_exclusion_promised: true })
    }

    #[test]
    fn fences_of_readers_follow_return_and_call_and_those_of_writers_the_order_of_holding() {
        let mut fences = Fences::default();
        assert_eq!(grant(&mut fences, Mode::Shared, 6, (1, 2)), Ok(()));
        assert_eq!(grant(&mut fences, Mode::Shared, 5, (1, 3)), Ok(()), "both were under way");
        assert_eq!(grant(&mut fences, Mode::Shared, 4, (3, 4)), Err(FenceFault::NotAbove(6)));
        assert_eq!(grant(&mut fences, Mode::Exclusive, 3, (1, 5)), Err(FenceFault::NotAbove(6)));
        assert_eq!(grant(&mut fences, Mode::Exclusive, 9, (1, 6)), Ok(()));
        assert_eq!(grant(&mut fences, Mode::Shared, 8, (1, 7)), Err(FenceFault::NotAbove(9)));
        assert_eq!(grant(&mut fences, Mode::Shared, 9, (8, 9)), Err(FenceFault::HandedOutTwice));
    }

    #[test]
    fn a_reader_goes_on_next_to_readers_with_higher_fences_and_not_after_a_writer() {
        let mut fences = Fences::default();
        grant(&mut fences, Mode::Exclusive, 3, (1, 1)).unwrap();
        grant(&mut fences, Mode::Shared, 7, (2, 2)).unwrap();
        assert_eq!((fences.highest_against(Mode::Shared), fences.highest_against(Mode::Exclusive)), (3, 7));
    }
}
