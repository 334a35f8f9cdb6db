//! First come, first served within one locker: one task contends on the nodes for a name, or for a set of
//! names.

use crate::acquire::local_slots::LocalSlots;
use crate::context::mutex::Mutex;
use crate::node::Wakeup;
use crate::quorum::Nodes;
use quorlock_core::NameSet;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// After this many handovers in a row within this locker, its next waiter pauses for other clients.
const MAX_HANDOVERS: u32 = 16;
/// The same if no other client is known to wait. Waiters of other programs do not register, so there may
/// be some all the same.
const MAX_HANDOVERS_ALONE: u32 = 256;

/// The most tasks of one locker that may wait for one name.
pub(crate) const MAX_WAITERS: usize = 65_536;

/// The queues of all names that a task of one locker holds or waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameQueues(Arc<Mutex<HashMap<NameSet, Weak<NameQueue>>>>);

impl NameQueues {
    /// The queue of `names`. It lives as long as a holder, a waiter or a `Lock` that used it.
    pub(crate) fn of(&self, names: &NameSet) -> Arc<NameQueue> {
        let mut queues = self.0.lock();
        if let Some(queue) = queues.get(names).and_then(Weak::upgrade) {
            return queue;
        }
        let queue = Arc::new(NameQueue {
            names: names.clone(),
            queues: self.clone(),
            semaphore: Semaphore::new(1),
            waiters: AtomicUsize::new(0),
            wakeup: Wakeup::new(),
            holder: Mutex::new(None),
            in_a_row: AtomicU32::new(0),
            others_wait: AtomicBool::new(true),
            others_take_turns: AtomicBool::new(true),
            subscriptions: Mutex::new(0),
            slots: LocalSlots::default(),
        });
        queues.insert(names.clone(), Arc::downgrade(&queue));
        queue
    }
}

/// A lock that this locker holds, as the waiters for its name see it.
pub(crate) trait LocalHolder: fmt::Debug + Send + Sync {
    /// How long a waiter need not ask the nodes; `None` if the nodes must be asked.
    fn held_for(&self) -> Option<Duration>;
}

/// The tasks of one locker that want one name, or the same set of names, in the order of their calls.
#[derive(Debug)]
pub(crate) struct NameQueue {
    names: NameSet,
    queues: NameQueues,
    semaphore: Semaphore,
    waiters: AtomicUsize,
    wakeup: Wakeup,
    holder: Mutex<Option<Weak<dyn LocalHolder>>>,
    in_a_row: AtomicU32,
    /// Whether waiters outside this locker were known when it last released the name.
    others_wait: AtomicBool,
    /// Whether a counted hint has come since this locker last yielded the name; true before that.
    others_take_turns: AtomicBool,
    /// How many tasks have subscribed to the hints of the nodes.
    subscriptions: Mutex<usize>,
    slots: LocalSlots,
}

impl NameQueue {
    /// Subscribes to hints about its name on all nodes, which notify its wakeup; once for all tasks.
    pub(crate) fn subscribe(&self, nodes: &Nodes) {
        let mut subscriptions = self.subscriptions.lock();
        *subscriptions += 1;
        if *subscriptions == 1 {
            nodes.all.iter().for_each(|node| node.watch(self.names.first(), &self.wakeup));
        }
    }

    /// Ends one subscription.
    pub(crate) fn unsubscribe(&self, nodes: &Nodes) {
        let mut subscriptions = self.subscriptions.lock();
        *subscriptions -= 1;
        if *subscriptions == 0 {
            nodes.all.iter().for_each(|node| node.unwatch(self.names.first()));
        }
    }

    /// Waits for the turn to contend, at most for `limit`; `None` if it did not come. `Err` with the
    /// number of waiters if there are too many.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call leaves the queue.
    pub(crate) async fn turn(
        &self,
        limit: impl FnOnce() -> Duration,
    ) -> Result<Option<QueueTurn<'_>>, usize> {
        let slot = QueueSlot::enter(&self.waiters)?;
        // Fair: a permit is free only while the queue is empty.
        let permit = match self.semaphore.try_acquire() {
            Ok(permit) => permit,
            // The semaphore is never closed.
            Err(_) => match timeout(limit(), self.semaphore.acquire()).await {
                Ok(Ok(permit)) => permit,
                _ => return Ok(None),
            },
        };
        Ok(Some(QueueTurn { _permit: permit, _slot: slot }))
    }

    /// The slots of the semaphore that the name is of, if it is of one.
    pub(crate) fn slots(&self) -> &LocalSlots {
        &self.slots
    }

    /// Whether it is the queue of `names`.
    pub(crate) fn is_of(&self, names: &NameSet) -> bool {
        self.names == *names
    }

    /// Notified when the name may have become free.
    pub(crate) fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }

    /// Wakes the next waiter. Without one this is no handover: other clients had their chance.
    pub(crate) fn hand_over(&self) {
        if self.waiters.load(Ordering::Relaxed) == 0 {
            self.in_a_row.store(0, Ordering::Relaxed);
        } else {
            self.wakeup.notify();
        }
    }

    /// How long a waiter need not ask the nodes, because a guard of this locker holds the name.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        self.holder()?.upgrade()?.held_for()
    }

    fn holder(&self) -> Option<Weak<dyn LocalHolder>> {
        self.holder.lock().clone()
    }

    /// Whether the waiter whose turn it is should pause for a moment.
    ///
    /// A handover enqueues the next acquire right behind the release, so that no other client can come
    /// between. A queue that is never empty would keep the lock for ever.
    pub(crate) fn must_yield(&self) -> bool {
        self.is_over_share()
    }

    /// Records that other clients could have had the lock.
    pub(crate) fn record_yield(&self) {
        self.in_a_row.store(0, Ordering::Relaxed);
    }

    /// Whether a waiter of this locker takes the name as soon as it is free, so that no other client needs
    /// a hint.
    pub(crate) fn has_next(&self) -> bool {
        !self.is_over_share() && self.waiters.load(Ordering::Relaxed) > 0
    }

    fn is_over_share(&self) -> bool {
        let max = if self.others_wait.load(Ordering::Relaxed) { MAX_HANDOVERS } else { MAX_HANDOVERS_ALONE };
        self.in_a_row.load(Ordering::Relaxed) >= max
    }

    /// Whether this locker should wait for its turn among other clients: one waits for the name, and a hint that
    /// counts those that wait has come since the last call. Other kinds of hints are used at once.
    pub(crate) fn yields_turn(&self) -> bool {
        self.others_wait.load(Ordering::Relaxed) && self.others_take_turns.swap(false, Ordering::Relaxed)
    }

    /// Records a hint that counts the clients that wait.
    pub(crate) fn record_counted_hint(&self) {
        self.others_take_turns.store(true, Ordering::Relaxed);
    }

    /// Records whether waiters outside this locker are known.
    pub(crate) fn set_others_wait(&self, wait: bool) {
        self.others_wait.store(wait, Ordering::Relaxed);
    }

    /// Records that this locker was granted the lock once more, or that another client has it.
    pub(crate) fn record_attempt(&self, granted: bool) {
        let in_a_row = self.in_a_row.load(Ordering::Relaxed);
        self.in_a_row.store(if granted { in_a_row.saturating_add(1) } else { 0 }, Ordering::Relaxed);
        if !granted {
            self.set_others_wait(true);
        }
    }

    pub(crate) fn set_holder(&self, holder: Weak<dyn LocalHolder>) {
        *self.holder.lock() = Some(holder);
    }

    /// Frees the memory of a holder that has ended with its last user, instead of at the next acquire.
    pub(crate) fn forget(&self, ended: &dyn LocalHolder) {
        let mut holder = self.holder.lock();
        // Another task of this locker may have adopted the lock in the meantime.
        if holder.as_ref().is_some_and(|holder| std::ptr::addr_eq(holder.as_ptr(), ended)) {
            *holder = None;
        }
    }
}

impl Drop for NameQueue {
    fn drop(&mut self) {
        let mut queues = self.queues.0.lock();
        // A new queue for the name may have replaced this one in the meantime.
        if queues.get(&self.names).is_some_and(|queue| queue.strong_count() == 0) {
            queues.remove(&self.names);
        }
    }
}

/// The right to contend for the name, until it is dropped.
#[derive(Debug)]
pub(crate) struct QueueTurn<'a> {
    _permit: SemaphorePermit<'a>,
    _slot: QueueSlot<'a>,
}

#[derive(Debug)]
struct QueueSlot<'a>(&'a AtomicUsize);

impl<'a> QueueSlot<'a> {
    fn enter(waiters: &'a AtomicUsize) -> Result<Self, usize> {
        let before = waiters.fetch_add(1, Ordering::Relaxed);
        let slot = Self(waiters);
        if before >= MAX_WAITERS { Err(before) } else { Ok(slot) }
    }
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorlock_core::Name;

    fn names(text: &str) -> NameSet {
        Name::new(text).unwrap().into()
    }

    #[tokio::test]
    async fn turns_are_given_in_the_order_of_the_calls() {
        let queues = NameQueues::default();
        let name = names("a");
        let order = Arc::new(Mutex::new(Vec::new()));
        let queue = queues.of(&name);
        let limit = || Duration::from_secs(9);
        let first = queue.turn(limit).await.unwrap();
        let mut tasks = Vec::new();
        for number in 0..5 {
            let (queue, order) = (queues.of(&name), order.clone());
            tasks.push(tokio::spawn(async move {
                let _turn = queue.turn(limit).await.unwrap().unwrap();
                order.lock().push(number);
            }));
            tokio::task::yield_now().await;
        }
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), [0, 1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn a_busy_queue_yields_after_some_handovers_and_less_often_while_no_other_client_waits() {
        let queue = NameQueues::default().of(&names("a"));
        let _next = queue.turn(|| Duration::from_secs(9)).await.unwrap();
        for (others, most) in [(true, MAX_HANDOVERS), (false, MAX_HANDOVERS_ALONE)] {
            queue.set_others_wait(others);
            for _ in 1..most {
                queue.record_attempt(true);
                assert!(queue.has_next() && !queue.must_yield());
            }
            queue.record_attempt(true);
            assert!(!queue.has_next(), "other clients get a hint of this release");
            assert!(queue.must_yield() && queue.must_yield(), "until it did");
            queue.record_yield();
            assert!(!queue.must_yield());
        }
        (0..MAX_HANDOVERS_ALONE).for_each(|_| queue.record_attempt(true));
        queue.record_attempt(false);
        assert!(queue.has_next() && !queue.must_yield(), "another client had it");
    }

    #[test]
    fn a_queue_yields_its_turn_while_others_wait_and_take_turns() {
        let queue = NameQueues::default().of(&names("a"));
        assert!(queue.yields_turn(), "not known to be alone");
        assert!(!queue.yields_turn(), "no hint came in between");
        queue.record_counted_hint();
        assert!(queue.yields_turn());
        queue.record_counted_hint();
        queue.set_others_wait(false);
        assert!(!queue.yields_turn(), "no other client waits any more");
        queue.set_others_wait(true);
        assert!(queue.yields_turn(), "one waits again, and nothing was yielded meanwhile");
    }

    #[tokio::test]
    async fn a_release_without_a_waiter_is_no_handover() {
        let queue = NameQueues::default().of(&names("a"));
        (0..MAX_HANDOVERS_ALONE).for_each(|_| queue.record_attempt(true));
        queue.hand_over();
        assert!(!queue.must_yield() && !queue.has_next());
    }

    #[tokio::test]
    async fn a_hold_that_ended_leaves_no_memory_behind_and_does_not_remove_the_next_one() {
        let locker = crate::Locker::builder().nodes(["memory:"]).build().unwrap();
        let lock = locker.named("a").unwrap();
        let queue = locker.queues().of(&lock.name().clone().into());
        let first = lock.acquire().await.unwrap();
        let ended = queue.holder().unwrap().upgrade().unwrap();
        let _ = first.release().await;
        assert!(queue.holder().is_none());

        let _second = lock.acquire().await.unwrap();
        queue.forget(&*ended);
        assert!(queue.held_for().is_some());
    }

    #[tokio::test]
    async fn a_queue_is_dropped_with_its_last_user() {
        let queues = NameQueues::default();
        let name = names("a");
        let (one, two) = (queues.of(&name), queues.of(&name));
        assert!(Arc::ptr_eq(&one, &two));
        drop((one, two));
        assert!(queues.0.lock().is_empty());
    }
}
