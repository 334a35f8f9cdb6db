//! Whether one client uses a connection, or several.

/// How many slots one client has under way at most: a vote, the epoch read with it, the release before, and whether somebody
/// waits. Several clients that never have more count as one, too; where no epochs are read these may be four.
const LONE: usize = 4;
/// How many writes it takes to forget most of a crowd.
const MEMORY: usize = 256;

/// How many slots were under way lately at most.
#[derive(Debug, Default)]
pub(crate) struct RecentConcurrency {
    /// [`MEMORY`] times that.
    most: usize,
}

impl RecentConcurrency {
    /// Takes note of how many are under way now.
    pub(crate) fn note(&mut self, under_way: usize) {
        self.most = (under_way * MEMORY).max(self.most - self.most / MEMORY);
    }

    /// Whether nobody else is about to send something.
    pub(crate) fn is_single_client(&self) -> bool {
        self.most <= LONE * MEMORY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_is_alone_and_more_are_not() {
        for (under_way, is_single_client) in [(0, true), (LONE, true), (LONE + 1, false), (20_000, false)] {
            let mut concurrency = RecentConcurrency::default();
            concurrency.note(under_way);
            assert_eq!(concurrency.is_single_client(), is_single_client, "{under_way}");
        }
    }

    #[test]
    fn a_crowd_that_went_is_forgotten_but_not_at_once() {
        let mut concurrency = RecentConcurrency::default();
        concurrency.note(100);
        let is_single_client = |concurrency: &mut RecentConcurrency| {
            concurrency.note(1);
            concurrency.is_single_client()
        };
        assert!((0..MEMORY).all(|_| !is_single_client(&mut concurrency)));
        assert!((0..10 * MEMORY).any(|_| is_single_client(&mut concurrency)));
        assert!((0..MEMORY).all(|_| is_single_client(&mut concurrency)));
    }
}
