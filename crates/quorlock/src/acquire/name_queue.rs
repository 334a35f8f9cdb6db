//! First come, first served within this process: one contender per name goes to the nodes.

use crate::node::Bell;
use quorlock_core::Name;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
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
pub(crate) struct Lines(Arc<Mutex<HashMap<Name, Weak<Line>>>>);

impl Lines {
    /// The line for `name`; it lives as long as somebody holds, waits or has been here for it.
    pub(crate) fn of(&self, name: &Name) -> Arc<Line> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get(name).and_then(Weak::upgrade) {
            return line;
        }
        let line = Arc::new(Line {
            name: name.clone(),
            lines: self.clone(),
            gate: Semaphore::new(1),
            waiters: AtomicUsize::new(0),
            bell: Bell::new(),
            holder: Mutex::new(None),
            in_a_row: AtomicU32::new(0),
            others: AtomicBool::new(true),
        });
        lines.insert(name.clone(), Arc::downgrade(&line));
        line
    }
}

/// A lock that this process holds, as the waiters for its name see it.
pub(crate) trait LocalHolder: fmt::Debug + Send + Sync {
    /// How long a waiter need not ask the nodes; `None` if the nodes must be asked.
    fn held_for(&self) -> Option<Duration>;
}

/// The tasks of this process that want one name, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Line {
    name: Name,
    lines: Lines,
    gate: Semaphore,
    waiters: AtomicUsize,
    bell: Bell,
    holder: Mutex<Option<Weak<dyn LocalHolder>>>,
    in_a_row: AtomicU32,
    /// Whether others than this process waited when it last let go, as far as it is known.
    others: AtomicBool,
}

impl Line {
    /// Waits for the turn to contend, at most for `limit`; `None` if it did not come. `Err` with the number of waiters
    /// if there are too many.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call leaves the line.
    pub(crate) async fn turn(&self, limit: impl FnOnce() -> Duration) -> Result<Option<Turn<'_>>, usize> {
        let place = Place::in_line(&self.waiters)?;
        // Fair: a permit is free only while nobody is in the line.
        let permit = match self.gate.try_acquire() {
            Ok(permit) => permit,
            // The gate is never closed.
            Err(_) => match timeout(limit(), self.gate.acquire()).await {
                Ok(Ok(permit)) => permit,
                _ => return Ok(None),
            },
        };
        Ok(Some(Turn { _permit: permit, _place: place }))
    }

    /// Rung when the name may have become free.
    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Wakes whoever is next. If nobody is, it is no handover, and other processes had their chance.
    pub(crate) fn hand_over(&self) {
        if self.waiters.load(Ordering::Relaxed) == 0 {
            self.in_a_row.store(0, Ordering::Relaxed);
        } else {
            self.bell.ring();
        }
    }

    /// How long a waiter need not ask the nodes, because a guard of this process holds the name.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        self.holder()?.upgrade()?.held_for()
    }

    fn holder(&self) -> Option<Weak<dyn LocalHolder>> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the one whose turn it is should hold back for a moment.
    ///
    /// A handover enqueues the next acquire right behind the release, so that no other process can come between. A
    /// line that is never empty would keep the lock for ever.
    pub(crate) fn owes_a_turn(&self) -> bool {
        let owes = self.is_greedy();
        if owes {
            self.in_a_row.store(0, Ordering::Relaxed);
        }
        owes
    }

    /// Whether somebody of this process takes the name as soon as it is free, so that no other process needs to know.
    pub(crate) fn has_next(&self) -> bool {
        !self.is_greedy() && self.waiters.load(Ordering::Relaxed) > 0
    }

    fn is_greedy(&self) -> bool {
        let most = if self.others.load(Ordering::Relaxed) { MOST_IN_A_ROW } else { MOST_UNAWAITED };
        self.in_a_row.load(Ordering::Relaxed) >= most
    }

    /// Notes whether others than this process wait.
    pub(crate) fn note_others(&self, wait: bool) {
        self.others.store(wait, Ordering::Relaxed);
    }

    /// Notes that this process was granted the lock once more, or that somebody else has it.
    pub(crate) fn note(&self, granted: bool) {
        let in_a_row = self.in_a_row.load(Ordering::Relaxed);
        self.in_a_row.store(if granted { in_a_row.saturating_add(1) } else { 0 }, Ordering::Relaxed);
        if !granted {
            self.note_others(true);
        }
    }

    pub(crate) fn set_holder(&self, holder: Weak<dyn LocalHolder>) {
        *self.holder.lock().unwrap_or_else(PoisonError::into_inner) = Some(holder);
    }

    /// Frees the memory of a holder that is over with its last user, instead of at the next acquire.
    pub(crate) fn forget(&self, over: &dyn LocalHolder) {
        let mut holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        // Another task of this process may have adopted the lock meanwhile.
        if holder.as_ref().is_some_and(|holder| std::ptr::addr_eq(holder.as_ptr(), over)) {
            *holder = None;
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut lines = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A new line may have taken the place in the meantime.
        if lines.get(&self.name).is_some_and(|line| line.strong_count() == 0) {
            lines.remove(&self.name);
        }
    }
}

/// The right to contend for the name, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    _permit: SemaphorePermit<'a>,
    _place: Place<'a>,
}

#[derive(Debug)]
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn in_line(waiters: &'a AtomicUsize) -> Result<Self, usize> {
        let before = waiters.fetch_add(1, Ordering::Relaxed);
        let place = Self(waiters);
        if before >= MOST_WAITERS { Err(before) } else { Ok(place) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_are_given_in_the_order_of_asking() {
        let lines = Lines::default();
        let name = Name::new("a").unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let line = lines.of(&name);
        let limit = || Duration::from_secs(9);
        let first = line.turn(limit).await.unwrap();
        let mut tasks = Vec::new();
        for number in 0..5 {
            let (line, order) = (lines.of(&name), order.clone());
            tasks.push(tokio::spawn(async move {
                let _turn = line.turn(limit).await.unwrap().unwrap();
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
        let line = Lines::default().of(&Name::new("a").unwrap());
        let _next = line.turn(|| Duration::from_secs(9)).await.unwrap();
        for (others, most) in [(true, MOST_IN_A_ROW), (false, MOST_UNAWAITED)] {
            line.note_others(others);
            for _ in 1..most {
                line.note(true);
                assert!(line.has_next() && !line.owes_a_turn());
            }
            line.note(true);
            assert!(!line.has_next(), "others are told of this release");
            assert!(line.owes_a_turn() && !line.owes_a_turn(), "once");
        }
        (0..MOST_UNAWAITED).for_each(|_| line.note(true));
        line.note(false);
        assert!(line.has_next() && !line.owes_a_turn(), "somebody else had it");
    }

    #[tokio::test]
    async fn who_lets_go_with_nobody_behind_has_not_handed_over() {
        let line = Lines::default().of(&Name::new("a").unwrap());
        (0..MOST_UNAWAITED).for_each(|_| line.note(true));
        line.hand_over();
        assert!(!line.owes_a_turn() && !line.has_next());
    }

    #[tokio::test]
    async fn a_hold_that_is_over_leaves_no_memory_behind_and_does_not_take_the_next_ones_away() {
        let locker = crate::Locker::builder().nodes(["memory:"]).build().unwrap();
        let lock = locker.named("a").unwrap();
        let line = locker.lines().of(lock.name());
        let first = lock.acquire().await.unwrap();
        let over = line.holder().unwrap().upgrade().unwrap();
        let _ = first.release().await;
        assert!(line.holder().is_none());

        let _second = lock.acquire().await.unwrap();
        line.forget(&*over);
        assert!(line.held_for().is_some());
    }

    #[tokio::test]
    async fn a_line_is_forgotten_with_its_last_user() {
        let lines = Lines::default();
        let name = Name::new("a").unwrap();
        let (one, two) = (lines.of(&name), lines.of(&name));
        assert!(Arc::ptr_eq(&one, &two));
        drop((one, two));
        assert!(lines.0.lock().unwrap().is_empty());
    }
}
