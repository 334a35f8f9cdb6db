//! Whether a connection is used by one client or by several.

/// How many replies one client has pending at most: a vote, the epoch read with it, the release before,
/// and whether there are waiters. Several clients that never have more count as one, too; where no epochs
/// are read these may be four.
const SINGLE_CLIENT: usize = 4;
/// How many writes it takes to forget most of a peak.
const MEMORY: usize = 256;

/// The recent peak of pending replies.
#[derive(Debug, Default)]
pub(crate) struct RecentConcurrency {
    /// [`MEMORY`] times the peak.
    peak: usize,
}

impl RecentConcurrency {
    /// Records how many replies are pending now.
    pub(crate) fn record(&mut self, pending: usize) {
        self.peak = (pending * MEMORY).max(self.peak - self.peak / MEMORY);
    }

    /// Whether no other client is likely to send something.
    pub(crate) fn is_single_client(&self) -> bool {
        self.peak <= SINGLE_CLIENT * MEMORY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_is_single_and_more_are_not() {
        for (pending, is_single_client) in
            [(0, true), (SINGLE_CLIENT, true), (SINGLE_CLIENT + 1, false), (20_000, false)]
        {
            let mut concurrency = RecentConcurrency::default();
            concurrency.record(pending);
            assert_eq!(concurrency.is_single_client(), is_single_client, "{pending}");
        }
    }

    #[test]
    fn a_peak_that_passed_is_forgotten_but_not_at_once() {
        let mut concurrency = RecentConcurrency::default();
        concurrency.record(100);
        let is_single_client = |concurrency: &mut RecentConcurrency| {
            concurrency.record(1);
            concurrency.is_single_client()
        };
        assert!((0..MEMORY).all(|_| !is_single_client(&mut concurrency)));
        assert!((0..10 * MEMORY).any(|_| is_single_client(&mut concurrency)));
        assert!((0..MEMORY).all(|_| is_single_client(&mut concurrency)));
    }
}
