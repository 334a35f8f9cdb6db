//! A value that tasks wait on, in the order in which they began to wait.
//!
//! `tokio::sync::watch` wakes its receivers in random order, so that a simulated world would not repeat.

use crate::context::mutex::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// A value that tasks wait on. Cheap to clone: all clones share it.
#[derive(Debug)]
pub(crate) struct Watched<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy + PartialEq> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Shared { value: Mutex::new(value), changed: Notify::new() }))
    }

    pub(crate) fn get(&self) -> T {
        *self.0.value.lock()
    }

    pub(crate) fn set(&self, value: T) {
        self.update(|_| value);
    }

    /// Replaces the value by what `next` makes of it.
    pub(crate) fn update(&self, next: impl FnOnce(T) -> T) {
        {
            let mut value = self.0.value.lock();
            *value = next(*value);
        }
        self.0.changed.notify_waiters();
    }

    /// Waits until `is_wanted` is true of the value, and returns that value.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn wait_for(&self, is_wanted: impl Fn(T) -> bool) -> T {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            // Registered before the value is read: a change between the two is noticed.
            changed.as_mut().enable();
            let value = self.get();
            if is_wanted(value) {
                return value;
            }
            changed.await;
        }
    }
}

impl<T> Clone for Watched<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_are_woken_in_the_order_of_their_waits() {
        let (watched, order) = (Watched::new(0), Arc::new(Mutex::new(Vec::new())));
        let mut tasks = Vec::new();
        for number in 0..20 {
            let (watched, order) = (watched.clone(), order.clone());
            tasks.push(tokio::spawn(async move {
                watched.wait_for(|value| value > 0).await;
                order.lock().push(number);
            }));
        }
        tokio::task::yield_now().await;
        watched.set(1);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), (0..20).collect::<Vec<_>>());
        assert_eq!(watched.wait_for(|value| value == 1).await, 1, "what is there need not come");
    }
}
