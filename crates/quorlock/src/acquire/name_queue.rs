//! First come, first served within this process: one contender per name goes to the nodes.

use crate::context::mutex::Mutex;
use crate::node::Wakeup;
use quorlock_core::Name;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// After so many handovers within this process, the next in line lets other processes go first.
const MOST_IN_A_ROW: u32 = 16;
/// The same if no other process is known to wait. Other programs may, and tell nobody.
const MOST_UNAWAITED: u32 = 256;

/// At most so many tasks of one process may wait for one name.
pub(crate) const MOST_WAITERS: usize = 65_536;

/// The lines of all names that somebody of this process holds or waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameQueues(Arc<Mutex<HashMap<Name, Weak<NameQueue>>>>);

impl NameQueues {
    /// The line for `name`; it lives as long as somebody holds, waits or has been here for it.
    pub(crate) fn of(&self, name: &Name) -> Arc<NameQueue> {
        let mut queues = self.0.lock();
        if let Some(queue) = queues.get(name).and_then(Weak::upgrade) {
            return queue;
        }
        let queue = Arc::new(NameQueue {
            name: name.clone(),
            queues: self.clone(),
            gate: Semaphore::new(1),
            waiters: AtomicUsize::new(0),
            wakeup: Wakeup::new(),
            holder: Mutex::new(None),
            in_a_row: AtomicU32::new(0),
            others: AtomicBool::new(true),
        });
        queues.insert(name.clone(), Arc::downgrade(&queue));
        queue
    }
}

/// A lock that this process holds, as the waiters for its name see it.
pub(crate) trait LocalHolder: fmt::Debug + Send + Sync {
    /// How long a waiter need not ask the nodes; `None` if the nodes must be asked.
    fn held_for(&self) -> Option<Duration>;
}

/// The tasks of this process that want one name, in the order in which they came.
#[derive(Debug)]
pub(crate) struct NameQueue {
    name: Name,
    queues: NameQueues,
    gate: Semaphore,
    waiters: AtomicUsize,
    wakeup: Wakeup,
    holder: Mutex<Option<Weak<dyn LocalHolder>>>,
    in_a_row: AtomicU32,
    /// Whether others than this process waited when it last let go, as far as it is known.
    others: AtomicBool,
}

impl NameQueue {
    /// Waits for the turn to contend, at most for `limit`; `None` if it did not come. `Err` with the number of waiters
    /// if there are too many.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call leaves the line.
    pub(crate) async fn turn(
        &self,
        limit: impl FnOnce() -> Duration,
    ) -> Result<Option<QueueTurn<'_>>, usize> {
        let place = QueueSlot::in_line(&self.waiters)?;
        // Fair: a permit is free only while nobody is in the line.
        let permit = match self.gate.try_acquire() {
            Ok(permit) => permit,
            // The gate is never closed.
            Err(_) => match timeout(limit(), self.gate.acquire()).await {
                Ok(Ok(permit)) => permit,
                _ => return Ok(None),
            },
        };
        Ok(Some(QueueTurn { _permit: permit, _place: place }))
    }

    /// Rung when the name may have become free.
    pub(crate) fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }

    /// Wakes whoever is next. If nobody is, it is no handover, and other processes had their chance.
    pub(crate) fn hand_over(&self) {
        if self.waiters.load(Ordering::Relaxed) == 0 {
            self.in_a_row.store(0, Ordering::Relaxed);
        } else {
            self.wakeup.notify();
        }
    }

    /// How long a waiter need not ask the nodes, because a guard of this process holds the name.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        self.holder()?.upgrade()?.held_for()
    }

    fn holder(&self) -> Option<Weak<dyn LocalHolder>> {
        self.holder.lock().clone()
    }

    /// Whether the one whose turn it is should hold back for a moment.
    ///
    /// A handover enqueues the next acquire right behind the release, so that no other process can come between. A
    /// line that is never empty would keep the lock for ever.
    pub(crate) fn must_yield(&self) -> bool {
        let owes = self.is_over_share();
        if owes {
            self.in_a_row.store(0, Ordering::Relaxed);
        }
        owes
    }

    /// Whether somebody of this process takes the name as soon as it is free, so that no other process needs to know.
    pub(crate) fn has_next(&self) -> bool {
        !self.is_over_share() && self.waiters.load(Ordering::Relaxed) > 0
    }

    fn is_over_share(&self) -> bool {
        let most = if self.others.load(Ordering::Relaxed) { MOST_IN_A_ROW } else { MOST_UNAWAITED };
        self.in_a_row.load(Ordering::Relaxed) >= most
    }

    /// Notes whether others than this process wait.
    pub(crate) fn set_others(&self, wait: bool) {
        self.others.store(wait, Ordering::Relaxed);
    }

    /// Notes that this process was granted the lock once more, or that somebody else has it.
    pub(crate) fn note(&self, granted: bool) {
        let in_a_row = self.in_a_row.load(Ordering::Relaxed);
        self.in_a_row.store(if granted { in_a_row.saturating_add(1) } else { 0 }, Ordering::Relaxed);
        if !granted {
            self.set_others(true);
        }
    }

    pub(crate) fn set_holder(&self, holder: Weak<dyn LocalHolder>) {
        *self.holder.lock() = Some(holder);
    }

    /// Frees the memory of a holder that is over with its last user, instead of at the next acquire.
    pub(crate) fn forget(&self, over: &dyn LocalHolder) {
        let mut holder = self.holder.lock();
        // Another task of this process may have adopted the lock meanwhile.
        if holder.as_ref().is_some_and(|holder| std::ptr::addr_eq(holder.as_ptr(), over)) {
            *holder = None;
        }
    }
}

impl Drop for NameQueue {
    fn drop(&mut self) {
        let mut queues = self.queues.0.lock();
        // A new line may have taken the place in the meantime.
        if queues.get(&self.name).is_some_and(|queue| queue.strong_count() == 0) {
            queues.remove(&self.name);
        }
    }
}

/// The right to contend for the name, until it is dropped.
#[derive(Debug)]
pub(crate) struct QueueTurn<'a> {
    _permit: SemaphorePermit<'a>,
    _place: QueueSlot<'a>,
}

#[derive(Debug)]
struct QueueSlot<'a>(&'a AtomicUsize);

impl<'a> QueueSlot<'a> {
    fn in_line(waiters: &'a AtomicUsize) -> Result<Self, usize> {
        let before = waiters.fetch_add(1, Ordering::Relaxed);
        let place = Self(waiters);
        if before >= MOST_WAITERS { Err(before) } else { Ok(place) }
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

    #[tokio::test]
    async fn turns_are_given_in_the_order_of_asking() {
        let queues = NameQueues::default();
        let name = Name::new("a").unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let queue = queues.of(&name);
        let limit = || Duration::from_secs(9);
        let first = queue.turn(limit).await.unwrap();
        let mut tasks = Vec::new();
        for number in 0..5 {
            let (queue, order) = (queues.of(&name), order.clone());
            tasks.push(tokio::spawn(async move {
                let _turn = queue.turn(limit).await.unwrap().unwrap();
                order.lock().unwrap().push(number);
            }));
            tokio::task::yield_now().await;
        }
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn a_busy_line_yields_after_so_many_handovers_and_more_seldom_while_nobody_else_waits() {
        let queue = NameQueues::default().of(&Name::new("a").unwrap());
        let _next = queue.turn(|| Duration::from_secs(9)).await.unwrap();
        for (others, most) in [(true, MOST_IN_A_ROW), (false, MOST_UNAWAITED)] {
            queue.set_others(others);
            for _ in 1..most {
                queue.note(true);
                assert!(queue.has_next() && !queue.must_yield());
            }
            queue.note(true);
            assert!(!queue.has_next(), "others are told of this release");
            assert!(queue.must_yield() && !queue.must_yield(), "once");
        }
        (0..MOST_UNAWAITED).for_each(|_| queue.note(true));
        queue.note(false);
        assert!(queue.has_next() && !queue.must_yield(), "somebody else had it");
    }

    #[tokio::test]
    async fn who_lets_go_with_nobody_behind_has_not_handed_over() {
        let queue = NameQueues::default().of(&Name::new("a").unwrap());
        (0..MOST_UNAWAITED).for_each(|_| queue.note(true));
        queue.hand_over();
        assert!(!queue.must_yield() && !queue.has_next());
    }

    #[tokio::test]
    async fn a_hold_that_is_over_leaves_no_memory_behind_and_does_not_take_the_next_ones_away() {
        let locker = crate::Locker::builder().nodes(["memory:"]).build().unwrap();
        let lock = locker.named("a").unwrap();
        let queue = locker.queues().of(lock.name());
        let first = lock.acquire().await.unwrap();
        let over = queue.holder().unwrap().upgrade().unwrap();
        let _ = first.release().await;
        assert!(queue.holder().is_none());

        let _second = lock.acquire().await.unwrap();
        queue.forget(&*over);
        assert!(queue.held_for().is_some());
    }

    #[tokio::test]
    async fn a_line_is_forgotten_with_its_last_user() {
        let queues = NameQueues::default();
        let name = Name::new("a").unwrap();
        let (one, two) = (queues.of(&name), queues.of(&name));
        assert!(Arc::ptr_eq(&one, &two));
        drop((one, two));
        assert!(queues.0.lock().unwrap().is_empty());
    }
}
