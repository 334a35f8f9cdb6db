//! How many answers are handed out at once.
//!
//! A single server and its client would work in turn: all commands in one write, all answers in one read. So the answers
//! of a single server are handed out in pieces, and what those who got one send next is written before the next piece: the
//! server executes it meanwhile. Votes under the restart guard gain less, as the epoch behind them answers them together.
//! With several servers the others have work, and fewer writes are better.

use crate::context::clock::Clock;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// Into how many pieces the answers of a single server are divided.
const PIECES: usize = 8;
/// If others take longer than this between two pieces, the runtime is busy: answers must not wait for their turn again.
const BUSY: Duration = Duration::from_millis(1);

/// The pace at which one batch of answers is handed out.
pub(crate) struct ReplyChunks(u64);

impl ReplyChunks {
    /// For the answers to `in_flight` commands.
    pub(crate) fn new(is_single: bool, in_flight: usize) -> Self {
        Self(if is_single { in_flight.div_ceil(PIECES) as u64 } else { u64::MAX })
    }

    /// How many commands are answered before others go first.
    pub(crate) fn chunk(&self) -> u64 {
        self.0.max(1)
    }

    /// Lets the tasks that are ready, those that were answered among them, go first.
    pub(crate) async fn yield_between(&mut self, clock: &dyn Clock) {
        let start = clock.now();
        step_back().await;
        if clock.now().since(start) > BUSY {
            self.0 = u64::MAX;
        }
    }
}

/// Lets the tasks that are ready go first, once.
async fn step_back() {
    let mut is_back = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_back, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorlock_core::Moment;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A clock that goes on by some microseconds each time it is read.
    #[derive(Debug)]
    struct Steps(AtomicU64, u64);

    impl Clock for Steps {
        fn now(&self) -> Moment {
            let micros = self.0.fetch_add(self.1, Ordering::Relaxed);
            Moment::from_boot(Duration::from_micros(micros))
        }

        fn wall_time(&self) -> std::time::SystemTime {
            std::time::UNIX_EPOCH
        }
    }

    #[test]
    fn a_single_server_is_read_in_pieces_and_one_of_several_is_not() {
        for (in_flight, chunk) in [(0, 1), (1, 1), (8, 1), (9, 2), (100, 13), (256, 32)] {
            assert_eq!(ReplyChunks::new(true, in_flight).chunk(), chunk);
            assert_eq!(ReplyChunks::new(false, in_flight).chunk(), u64::MAX);
        }
    }

    #[tokio::test]
    async fn on_a_busy_runtime_the_rest_comes_at_once() {
        for (micros, chunk) in [(999, 13), (1001, u64::MAX)] {
            let mut chunks = ReplyChunks::new(true, 100);
            chunks.yield_between(&Steps(AtomicU64::new(0), micros)).await;
            assert_eq!(chunks.chunk(), chunk);
        }
    }
}
