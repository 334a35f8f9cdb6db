//! The delay after a release hint, so that the processes that got it do not all try at the same
//! moment.

use std::time::Duration;

/// The distance between the attempts of processes after a release of which all of them were notified.
const STEP: Duration = Duration::from_millis(1);
/// The longest delay, in steps. Among more processes than this, several try together.
const MAX_STEPS: usize = 12;

/// How long a process waits before it tries, after a release of which `subscribers` processes were
/// notified. It got `missed_hints` hints before and did not get the lock.
///
/// `delay = 1 ms * max(0, subscribers - 1 - missed_hints)`, at most 12 ms, and up to half as much again
/// at random. While processes take the lock one after the other, each misses as many hints as there are
/// processes before it. So a process that has missed that many tries at once, one that has just arrived
/// waits for all others, and `random` spreads those that arrived together.
pub(crate) fn stagger(subscribers: usize, missed_hints: usize, random: u64) -> Duration {
    let before = subscribers.saturating_sub(1).saturating_sub(missed_hints).min(MAX_STEPS);
    let spread = random % (1 + before as u64 / 2);
    STEP * (before as u32 + spread as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_process_that_is_alone_or_has_waited_for_all_others_tries_at_once() {
        assert_eq!(stagger(1, 0, 9), Duration::ZERO);
        assert_eq!(stagger(0, 0, 9), Duration::ZERO);
        assert_eq!(stagger(10, 9, 9), Duration::ZERO);
        assert_eq!(stagger(10, 500, 9), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn a_longer_wait_means_a_shorter_delay_and_no_delay_is_long(
            subscribers in 0usize..10_000, missed_hints in 0usize..10_000, random: u64,
        ) {
            let delay = stagger(subscribers, missed_hints, random);
            prop_assert!(delay <= 2 * STEP * MAX_STEPS as u32);
            prop_assert!(stagger(subscribers, missed_hints + 1, 0) <= delay);
        }
    }
}
