//! Bounds how many attempts of one locker are under way, so that votes do not time out in our own queue.

mod porter;

use porter::Porter;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::Id;
use tokio::time::Instant;

/// So many attempts of one locker may be under way at the same moment; the others wait for their turn, first come, first
/// served.
///
/// The node timeout counts from the moment of sending. With more votes on their way than a server answers within a
/// fraction of it, all of them would time out, be undone and sent again.
const MOST_ATTEMPTS: usize = 256;

/// How late somebody may be told that its time is over.
const LOOK: Duration = Duration::from_millis(2);

/// The longest wait that is told apart from waiting for ever.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 86_400);

/// Where attempts of one locker wait until few enough others are under way. Extends and releases do not pass it.
///
/// Thousands may wait here, most of them for a fraction of their limit: a timer for each would cost as much as the wait, so
/// one task for all of them looks whose time is over.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    /// Passes that nobody has. While somebody waits, there is none.
    free: usize,
    /// Who waits, in the order of coming; `None` has left.
    waiting: VecDeque<Option<Waiter>>,
    /// The number of the first in `waiting`. Whoever waited with a lower one was given a pass, or has left.
    first: u64,
    /// No limit of those who wait ends before.
    earliest: Instant,
    /// The runtimes that have a porter. One may be idle, or end, while others go on.
    porters: Vec<Id>,
}

#[derive(Debug)]
struct Waiter {
    waker: Waker,
    until: Instant,
}

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Queue {
            free: MOST_ATTEMPTS,
            waiting: VecDeque::new(),
            first: 0,
            earliest: Instant::now(),
            porters: Vec::new(),
        })))
    }
}

impl Gate {
    /// Waits until an attempt may begin, at most for `limit`. The attempt lasts until the pass is dropped.
    ///
    /// Whoever has a pass waits for nodes alone, each for a node timeout at most, so every pass comes back.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call gives up its place.
    pub(crate) async fn pass(&self, limit: impl FnOnce() -> Duration) -> Option<Pass<'_>> {
        if self.queue().take_free() {
            return Some(Pass(self));
        }
        Wait { gate: self, until: Instant::now() + limit().min(FOREVER), number: None }.await
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn take_free(&mut self) -> bool {
        let is_free = self.free > 0;
        self.free -= usize::from(is_free);
        is_free
    }

    /// Lets somebody in line, and tells its number.
    fn enter(&mut self, waiter: Waiter) -> u64 {
        self.earliest = if self.waiting.is_empty() { waiter.until } else { self.earliest.min(waiter.until) };
        self.waiting.push_back(Some(waiter));
        self.first + (self.waiting.len() as u64 - 1)
    }

    /// Whoever waits with `number`; `None` once it was given a pass.
    fn waiter(&mut self, number: u64) -> Option<&mut Waiter> {
        self.place(number)?.as_mut()
    }

    /// Takes whoever waits with `number` out of the line; `None` if it was given a pass.
    fn leave(&mut self, number: u64) -> Option<Waiter> {
        let waiter = self.place(number)?.take();
        self.tidy();
        waiter
    }

    fn place(&mut self, number: u64) -> Option<&mut Option<Waiter>> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.waiting.get_mut(at)
    }

    /// Takes those out who have left, up to the first who waits.
    fn tidy(&mut self) {
        while let Some(None) = self.waiting.front() {
            self.waiting.pop_front();
            self.first += 1;
        }
    }

    /// Gives a pass that came back to whoever waits first, who is to be woken.
    fn give_back(&mut self) -> Option<Waker> {
        self.tidy();
        let Some(next) = self.waiting.pop_front().flatten() else {
            self.free += 1;
            return None;
        };
        self.first += 1;
        Some(next.waker)
    }

    /// Those whose time is over. They leave by themselves.
    fn late(&mut self, now: Instant) -> Vec<Waker> {
        if now < self.earliest {
            return Vec::new();
        }
        let (late, in_time): (Vec<_>, Vec<_>) =
            self.waiting.iter().flatten().partition(|who| who.until <= now);
        self.earliest = in_time.iter().map(|who| who.until).min().unwrap_or(now + LOOK);
        late.iter().map(|who| who.waker.clone()).collect()
    }
}

/// The right to make one attempt, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pass<'a>(&'a Gate);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let next = self.0.queue().give_back();
        if let Some(next) = next {
            next.wake();
        }
    }
}

/// Somebody who waits for a pass.
struct Wait<'a> {
    gate: &'a Gate,
    until: Instant,
    /// The number in line, from the first look until a pass was taken or the time was over.
    number: Option<u64>,
}

impl<'a> Future for Wait<'a> {
    type Output = Option<Pass<'a>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (gate, until) = (self.gate, self.until);
        let mut queue = gate.queue();
        let Some(number) = self.number else {
            if queue.take_free() {
                return Poll::Ready(Some(Pass(gate)));
            }
            self.number = Some(queue.enter(Waiter { waker: context.waker().clone(), until }));
            Porter::call(gate, queue);
            return Poll::Pending;
        };
        let Some(waiter) = queue.waiter(number) else {
            self.number = None;
            return Poll::Ready(Some(Pass(gate)));
        };
        if Instant::now() >= until {
            drop(queue);
            self.leave();
            return Poll::Ready(None);
        }
        if !waiter.waker.will_wake(context.waker()) {
            let _old = std::mem::replace(&mut waiter.waker, context.waker().clone());
            drop(queue);
        }
        Poll::Pending
    }
}

impl Wait<'_> {
    /// Gives up the place in line, or the pass if it came and was not taken.
    fn leave(&mut self) {
        let Some(number) = self.number.take() else { return };
        // What a waker drags along with it must not meet a locked queue.
        let waiter = self.gate.queue().leave(number);
        if waiter.is_none() {
            drop(Pass(self.gate));
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests;
