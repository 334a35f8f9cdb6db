//! Randomness that a seed repeats.

use std::time::Duration;

/// A small, fast generator (SplitMix64). The same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    /// Another stream that depends on this one's state.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.draw())
    }

    /// The next number.
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A span from `low` to `high`.
    pub(crate) fn span(&mut self, low: Duration, high: Duration) -> Duration {
        let width = u64::try_from((high - low).as_micros()).unwrap();
        low + Duration::from_micros(self.below(width + 1))
    }

    /// One of `items`.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let at = self.below(items.len() as u64);
        &items[usize::try_from(at).unwrap()]
    }
}
