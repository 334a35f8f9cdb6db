//! When the driver is woken for new commands: not at once, as those that come together should go in one write.

use super::link::Link;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tokio::task::JoinHandle;

/// So many commands go out without waiting for more where a locker has one server: while it executes them, the rest
/// are made. With several servers the others have work meanwhile, and fewer writes are better.
const PIECE: usize = 16;

/// Who is to be woken for a command that was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Nobody: somebody was, for those before it.
    Nobody,
    /// The usher: it is the first.
    Usher,
    /// The driver: there is a piece to be written.
    Driver,
}

impl Call {
    /// Whom to wake when `queued` commands wait, one of them new, for the only server of a locker or for one of several.
    pub(super) fn for_queued(queued: usize, is_only: bool) -> Self {
        match queued {
            1 => Call::Usher,
            _ if is_only && queued.is_multiple_of(PIECE) => Call::Driver,
            _ => Call::Nobody,
        }
    }
}

/// Wakes a driver for the first command of a write, once the tasks that are ready have had their turn: what they send
/// then goes in the same write. It ends when it is dropped.
///
/// A task of its own, as a driver that waited for its own turn could not be woken sooner.
pub(super) struct Usher(JoinHandle<()>);

impl Usher {
    pub(super) fn start(link: Arc<Link>) -> Self {
        Self(tokio::spawn(async move {
            loop {
                link.first.notified().await;
                step_back().await;
                link.wake.notify_one();
            }
        }))
    }
}

impl Drop for Usher {
    fn drop(&mut self) {
        self.0.abort();
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

    #[test]
    fn the_first_command_waits_for_others_and_a_piece_does_not() {
        assert_eq!(Call::for_queued(1, true), Call::Usher);
        assert_eq!(Call::for_queued(1, false), Call::Usher);
        assert_eq!(Call::for_queued(PIECE, true), Call::Driver);
        assert_eq!(Call::for_queued(3 * PIECE, true), Call::Driver);
        for (queued, is_only) in [(2, true), (PIECE - 1, true), (PIECE + 1, true), (PIECE, false)] {
            assert_eq!(Call::for_queued(queued, is_only), Call::Nobody);
        }
    }
}
