//! How many answers are handed out at once.
//!
//! A single server and its client would work alternately: all commands in one write, all answers in one
//! read. So the answers of a single server are handed out in chunks, and what their callers send next is
//! written before the next chunk: the server executes it in the meantime. Votes under the restart guard
//! gain less, because the epoch after them answers them together. With several servers the others have
//! work, and fewer writes are better.

use crate::context::clock::Clock;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// Into how many chunks the answers of a single server are divided.
const CHUNKS: usize = 8;
/// If other tasks take longer than this between two chunks, the runtime is busy: the remaining answers
/// are handed out without another yield.
const BUSY: Duration = Duration::from_millis(1);

/// The chunks in which one batch of answers is handed out.
pub(crate) struct ReplyChunks(u64);

impl ReplyChunks {
    /// For the answers to `in_flight` commands.
    pub(crate) fn new(is_single: bool, in_flight: usize) -> Self {
        Self(if is_single { in_flight.div_ceil(CHUNKS) as u64 } else { u64::MAX })
    }

    /// How many commands are answered before the driver yields.
    pub(crate) fn chunk(&self) -> u64 {
        self.0.max(1)
    }

    /// Yields to the tasks that are ready, among them the callers that were answered.
    pub(crate) async fn yield_between(&mut self, clock: &dyn Clock) {
        let start = clock.now();
        yield_once().await;
        if clock.now().since(start) > BUSY {
            self.0 = u64::MAX;
        }
    }
}

/// Yields to the tasks that are ready, once.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
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

    /// A clock that advances by some microseconds each time it is read.
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
    fn a_single_server_is_read_in_chunks_and_one_of_several_is_not() {
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
