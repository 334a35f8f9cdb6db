//! The fence: a number that grows with every acquisition of a name, and how the next one is proposed.

use crate::name::Name;
use crate::time::Wall;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// An increasing number handed out with the lock, for the protected resource to compare.
///
/// A fence is a number to which a majority of nodes, where the holder has the name, was strictly raised
/// by that holder. Nodes keep it as a double, so it stays below 2^53; microseconds since 1970 fit until
/// the year 2255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Fence(u64);

impl Fence {
    /// No fence, for lockers whose fences are switched off. Every resource that has seen a fence refuses
    /// it.
    pub const NONE: Fence = Fence(0);

    /// The largest fence that every node can keep exactly.
    pub const MAX: Fence = Fence((1 << 53) - 1);

    /// The fence `number`, or the largest one if it is over that.
    pub fn new(number: u64) -> Self {
        Self(number.min(Self::MAX.0))
    }

    /// The number itself.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The next larger fence; the largest one has none.
    pub fn next(self) -> Option<Fence> {
        (self < Self::MAX).then_some(Fence(self.0 + 1))
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> u64 {
        fence.0
    }
}

impl TryFrom<u64> for Fence {
    type Error = &'static str;

    fn try_from(number: u64) -> Result<Self, Self::Error> {
        if number <= Self::MAX.0 { Ok(Self(number)) } else { Err("a fence is below 2^53") }
    }
}

/// Proposes fences: the wall clock in microseconds, corrected by what nodes were seen to hold.
///
/// Proposals only decide how often one round trip suffices; the strict raise on the nodes keeps fences
/// unique and ordered, whatever is proposed here. A client whose clock lags learns its lag (`lead`) from
/// the first counter that is ahead of it and proposes on a par with the others from then on.
#[derive(Clone, Debug, Default)]
pub struct FenceClock {
    lead: Duration,
    ahead: BTreeMap<Name, Fence>,
}

impl FenceClock {
    /// A counter further ahead than this is one name's accident, not a clock difference between clients.
    const LONGEST_LEAD: Duration = Duration::from_secs(5);
    /// The most names that are remembered whose counter is far ahead; more cost a round trip, not safety.
    const MAX_NAMES: usize = 1024;

    /// The year 2200. A clock that shows more is wrong, and what it proposed would leave few or no fences
    /// to hand out.
    const LATEST: Wall = Wall::from_micros(7_258_118_400_000_000);

    /// What to propose for `name` now.
    pub fn propose(&self, name: &Name, now: Wall) -> Fence {
        let by_clock = Fence::new((now + self.lead).min(Self::LATEST).as_micros());
        let by_memory = self.ahead.get(name).and_then(|seen| seen.next()).unwrap_or_default();
        by_clock.max(by_memory)
    }

    /// Records that a node's counter for `name` was at `counter`.
    pub fn saw(&mut self, name: &Name, counter: Fence, now: Wall) {
        let lag = Wall::from_micros(counter.get()).since(now);
        if lag <= Self::LONGEST_LEAD {
            self.lead = self.lead.max(lag);
            return;
        }
        if self.ahead.len() >= Self::MAX_NAMES {
            // The clock has passed some of them by now.
            self.ahead.retain(|_, seen| seen.get() > now.as_micros());
        }
        if self.ahead.len() < Self::MAX_NAMES || self.ahead.contains_key(name) {
            let seen = self.ahead.entry(name.clone()).or_default();
            *seen = counter.max(*seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Wall {
        Wall::from_micros(micros)
    }

    #[test]
    fn proposals_follow_the_wall_clock() {
        let clock = FenceClock::default();
        assert_eq!(clock.propose(&Name::new("a").unwrap(), at(77)), Fence::new(77));
    }

    /// Goal: one client whose clock is centuries ahead must not use a name's fences up for all others.
    #[test]
    fn a_clock_that_is_centuries_ahead_leaves_fences_to_hand_out() {
        let name = Name::new("a").unwrap();
        for wrong in [at(u64::MAX), at(Fence::MAX.get()), at(10_413_792_000_000_000)] {
            let proposed = FenceClock::default().propose(&name, wrong);
            assert!(proposed < Fence::new(Fence::MAX.get() / 10 * 9), "{wrong:?}: {proposed}");
        }
    }

    #[test]
    fn a_lagging_client_catches_up_for_every_name_after_one_counter() {
        let mut clock = FenceClock::default();
        clock.saw(&Name::new("a").unwrap(), Fence::new(1_300), at(1_000));
        assert_eq!(clock.propose(&Name::new("b").unwrap(), at(2_000)), Fence::new(2_300));
    }

    #[test]
    fn a_counter_from_the_far_future_touches_its_own_name_only() {
        let mut clock = FenceClock::default();
        let (odd, other) = (Name::new("odd").unwrap(), Name::new("other").unwrap());
        clock.saw(&odd, Fence::new(900_000_000), at(1_000));
        assert_eq!(clock.propose(&odd, at(2_000)), Fence::new(900_000_001));
        assert_eq!(clock.propose(&other, at(2_000)), Fence::new(2_000));
    }

    #[test]
    fn a_fence_is_a_number_that_a_double_keeps_exactly() {
        assert_eq!(u64::from(Fence::MAX), 9_007_199_254_740_991);
        assert_eq!(u64::from(Fence::new(7)), 7);
        assert!(Fence::try_from(1 << 53).is_err() && Fence::try_from((1 << 53) - 1) == Ok(Fence::MAX));
    }

    /// Goal: counters of the far future fill no memory, and names whose counter the clock has passed make
    /// room.
    #[test]
    #[cfg_attr(miri, ignore = "slow: a thousand names, each compared with all others")]
    fn few_names_are_remembered_and_those_that_the_clock_has_passed_make_room() {
        let far = |number: u64| Fence::new(1_000_000_000 + number);
        let name = |number: u64| Name::new(format!("n{number}")).unwrap();
        let most = FenceClock::MAX_NAMES as u64;
        let mut clock = FenceClock::default();
        (0..most).for_each(|number| clock.saw(&name(number), far(number), at(1_000)));
        clock.saw(&name(most), far(most), at(1_000));
        assert_eq!(clock.propose(&name(most), at(1_000)), Fence::new(1_000), "there is no room");
        assert_eq!(clock.propose(&name(0), at(1_000)), far(1), "those before it stay");
        clock.saw(&name(0), far(9), at(1_000));
        assert_eq!(clock.propose(&name(0), at(1_000)), far(10), "and follow their counters");
        // The clock is at the counter of the second name now; that of the first is higher.
        let later = at(far(1).get());
        clock.saw(&name(most), Fence::new(9_000_000_000), later);
        assert_eq!(clock.ahead.len(), FenceClock::MAX_NAMES, "one went, one came");
        assert!(!clock.ahead.contains_key(&name(1)), "the clock is there");
        assert_eq!(clock.propose(&name(most), later), Fence::new(9_000_000_001));
    }

    #[test]
    fn the_largest_fence_has_no_successor() {
        assert_eq!(Fence::MAX.next(), None);
        assert_eq!(Fence::new(u64::MAX), Fence::MAX);
        assert_eq!(Fence::new(1).next(), Some(Fence::new(2)));
    }
}
