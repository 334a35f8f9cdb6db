//! What wakes the waiters of a name.

use crate::context::mutex::Mutex;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Notify;

/// How many releases before the last one are remembered: a node that lags behind hints at them late.
const EARLIER: usize = 8;

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
    /// Notified as well; each has a number of its own.
    listeners: Mutex<Vec<(u64, Wakeup)>>,
}

/// The last notification.
#[derive(Debug, Default)]
struct Last {
    release: Option<u64>,
    subscribers: usize,
    /// How many hints about the release came.
    hints: usize,
    /// Notifies once more at this many hints.
    again_at: Option<usize>,
    /// The releases before it, the latest first.
    earlier: [Option<u64>; EARLIER],
}

impl Last {
    /// Begins to count the hints about `release`, or about none that is known.
    fn begin(&mut self, release: Option<u64>) {
        let mut earlier = self.earlier;
        if self.release.is_some() {
            earlier.rotate_right(1);
            earlier[0] = self.release;
        }
        *self = Self { release, earlier, ..Self::default() };
    }
}

impl Wakeup {
    /// A new wakeup.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notifies the waiter.
    pub fn notify(&self) {
        self.last().begin(None);
        self.0.notify.notify_one();
        self.listeners().iter().for_each(|(_, listener)| listener.notify());
    }

    /// Notifies the waiter of a release, identified by any number that all nodes have for it, of which
    /// `subscribers` processes were notified. Once: hints of several nodes about the same release are one
    /// notification, unless the waiter asked for another with `notify_at`. A hint that comes after those about
    /// a later release is none.
    pub fn notify_release(&self, release: u64, subscribers: usize) {
        let is_due = {
            let mut last = self.last();
            if last.earlier.contains(&Some(release)) {
                return;
            }
            if last.release != Some(release) {
                last.begin(Some(release));
            }
            last.subscribers = subscribers;
            last.hints += 1;
            let hints = last.hints;
            hints == 1 || last.again_at.take_if(|again_at| hints >= *again_at).is_some()
        };
        if is_due {
            self.0.notify.notify_one();
        }
        self.listeners().iter().for_each(|(_, listener)| listener.notify_release(release, subscribers));
    }

    /// Drops a notification that no waiter has taken.
    pub(crate) fn clear(&self) {
        pin!(self.0.notify.notified()).as_mut().enable();
    }

    /// Whether `hints` hints came about the last release.
    pub(crate) fn has_hints(&self, hints: usize) -> bool {
        self.last().hints >= hints
    }

    /// Notifies once more when `hints` hints about the last release have come.
    pub(crate) fn notify_at(&self, hints: usize) {
        self.last().again_at = Some(hints);
    }

    /// Notifies `listener` as well, until [`Wakeup::remove_listener`] with the number that this returns.
    pub(crate) fn add_listener(&self, listener: &Wakeup) -> u64 {
        let mut listeners = self.listeners();
        let number = listeners.last().map_or(0, |(last, _)| last + 1);
        listeners.push((number, listener.clone()));
        number
    }

    pub(crate) fn remove_listener(&self, number: u64) {
        self.listeners().retain(|(known, _)| *known != number);
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

    fn listeners(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Wakeup)>> {
        self.0.listeners.lock()
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
    async fn listeners_are_notified_until_they_are_removed() {
        let (wakeup, one, two) = (Wakeup::new(), Wakeup::new(), Wakeup::new());
        let silence = Duration::from_millis(10);
        let number = wakeup.add_listener(&one);
        wakeup.add_listener(&two);
        wakeup.remove_listener(number);
        wakeup.notify_release(7, 3);
        assert!(timeout(silence, one.notified()).await.is_err());
        timeout(silence, two.notified()).await.unwrap();
        assert_eq!(two.subscribers(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_notification_that_was_cleared_wakes_no_waiter() {
        let (wakeup, silence) = (Wakeup::new(), Duration::from_millis(10));
        wakeup.clear();
        wakeup.notify();
        wakeup.clear();
        assert!(timeout(silence, wakeup.notified()).await.is_err());
        wakeup.notify();
        timeout(silence, wakeup.notified()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_hint_about_an_earlier_release_is_none() {
        let (wakeup, silence) = (Wakeup::new(), Duration::from_millis(10));
        for release in 1..=3 {
            wakeup.notify_release(release, 5);
            timeout(silence, wakeup.notified()).await.unwrap();
        }
        wakeup.notify_at(2);
        for late in [1, 2] {
            wakeup.notify_release(late, 7);
            assert!(timeout(silence, wakeup.notified()).await.is_err(), "{late}");
        }
        assert!(wakeup.subscribers() == 5 && !wakeup.has_hints(2));
        wakeup.notify_release(3, 5);
        timeout(silence, wakeup.notified()).await.expect("a majority hinted at the last release");
        wakeup.notify();
        wakeup.clear();
        wakeup.notify_release(3, 5);
        assert!(timeout(silence, wakeup.notified()).await.is_err(), "the name may have been free since then");
    }

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
        assert!(
            timeout(silence, wakeup.notified()).await.is_err(),
            "the waiter was notified after that release"
        );
        wakeup.notify_release(9, 2);
        timeout(silence, wakeup.notified()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_asks_for_it_is_notified_once_more_when_enough_nodes_sent_their_hints() {
        let (wakeup, silence) = (Wakeup::new(), Duration::from_millis(10));
        wakeup.notify_release(7, 1);
        timeout(silence, wakeup.notified()).await.unwrap();
        assert!(wakeup.has_hints(1) && !wakeup.has_hints(2));
        wakeup.notify_at(3);
        wakeup.notify_release(7, 1);
        assert!(timeout(silence, wakeup.notified()).await.is_err());
        wakeup.notify_release(7, 1);
        timeout(silence, wakeup.notified()).await.unwrap();
        assert!(wakeup.has_hints(3));
        wakeup.notify_release(7, 1);
        assert!(timeout(silence, wakeup.notified()).await.is_err());
        wakeup.notify_release(8, 1);
        assert!(!wakeup.has_hints(2));
    }
}
