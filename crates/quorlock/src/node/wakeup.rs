//! What wakes the waiters of a name.

use crate::context::mutex::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// Notified when a name may have become free. Cheap to clone: all clones share one state.
///
/// A notification without a waiter stays for the next one. It is a hint and no more: it may be missing,
/// late or wrong.
#[derive(Clone, Debug, Default)]
pub struct Wakeup(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    notify: Notify,
    last: Mutex<Last>,
}

/// The last notification.
#[derive(Debug, Default)]
struct Last {
    release: Option<u64>,
    subscribers: usize,
}

impl Wakeup {
    /// A new wakeup.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notifies the waiter.
    pub fn notify(&self) {
        *self.last() = Last::default();
        self.0.notify.notify_one();
    }

    /// Notifies the waiter of a release, identified by any number that all nodes have for it, of which
    /// `subscribers` processes were notified. Once: hints of several nodes about the same release are one
    /// notification.
    pub fn notify_release(&self, release: u64, subscribers: usize) {
        let before = std::mem::replace(&mut *self.last(), Last { release: Some(release), subscribers });
        if before.release != Some(release) {
            self.0.notify.notify_one();
        }
    }

    /// How many processes got the last notification; one, as far as is known.
    pub(crate) fn subscribers(&self) -> usize {
        self.last().subscribers.max(1)
    }

    /// Waits for the next notification, or takes one that came before.
    ///
    /// # Cancel safety
    /// Cancel safe: a notification that is not taken stays.
    pub async fn notified(&self) {
        self.0.notify.notified().await;
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Last> {
        self.0.last.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn hints_of_several_nodes_about_one_release_are_one_notification() {
        let (wakeup, silence) = (Wakeup::new(), Duration::from_millis(10));
        assert_eq!(wakeup.subscribers(), 1);
        wakeup.notify_release(7, 3);
        timeout(silence, wakeup.notified()).await.unwrap();
        assert_eq!(wakeup.subscribers(), 3);
        wakeup.notify_release(7, 4);
        assert!(timeout(silence, wakeup.notified()).await.is_err());
        wakeup.notify_release(8, 4);
        timeout(silence, wakeup.notified()).await.unwrap();
        wakeup.notify();
        timeout(silence, wakeup.notified()).await.unwrap();
        assert_eq!(wakeup.subscribers(), 1);
        wakeup.notify_release(8, 2);
        timeout(silence, wakeup.notified()).await.unwrap();
    }
}
