//! When commands are written: not at once, as those that come together should go in one write.

use super::link::Link;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tokio::task::JoinHandle;

/// Wakes a driver for the first command of a write, once the tasks that are ready have had their turn: what they send
/// then goes in the same write. It ends when it is dropped.
///
/// A task of its own, as a driver that waited for its own turn could not read answers meanwhile.
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
pub(super) async fn step_back() {
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
