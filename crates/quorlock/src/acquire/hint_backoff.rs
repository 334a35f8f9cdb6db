//! Taking turns among processes that do not know of each other.

use std::time::Duration;

/// How far apart processes try after a release that all of them were told of.
const STEP: Duration = Duration::from_millis(1);
/// The longest that a process holds back, in steps. In larger crowds several try together.
const MOST_STEPS: usize = 12;

/// How long to hold back after a release that `subscribers` processes were told of, for one that was told of `in_vain` releases
/// before and did not get the lock.
///
/// In a crowd that takes turns each hears as many hints in vain as there are others before it: so who has heard that many
/// tries at once, who has just come waits for all of them, and those who came together are spread by `random`.
pub(crate) fn stagger(subscribers: usize, in_vain: usize, random: u64) -> Duration {
    let before = subscribers.saturating_sub(1).saturating_sub(in_vain).min(MOST_STEPS);
    let spread = random % (1 + before as u64 / 2);
    STEP * (before as u32 + spread as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_is_alone_or_has_waited_for_all_others_does_not_hold_back() {
        assert_eq!(stagger(1, 0, 9), Duration::ZERO);
        assert_eq!(stagger(0, 0, 9), Duration::ZERO);
        assert_eq!(stagger(10, 9, 9), Duration::ZERO);
        assert_eq!(stagger(10, 500, 9), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn who_has_waited_longer_tries_earlier_and_nobody_holds_back_for_long(
            subscribers in 0usize..10_000, in_vain in 0usize..10_000, random: u64,
        ) {
            let delay = stagger(subscribers, in_vain, random);
            prop_assert!(delay <= 2 * STEP * MOST_STEPS as u32);
            prop_assert!(stagger(subscribers, in_vain + 1, 0) <= delay);
        }
    }
}
