//! Bounds how many attempts of one locker are under way, so that votes do not time out in our own queue.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, sleep_until};

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

/// The one task of a runtime that tells those who wait that their time is over, as long as somebody waits.
struct Porter {
    gate: Gate,
    runtime: Id,
    /// Whether another one may be called.
    has_left: bool,
}

impl Porter {
    /// Sees to it that the current runtime has a porter.
    fn call(gate: &Gate, mut queue: MutexGuard<'_, Queue>) {
        let runtime = Handle::current().id();
        if !queue.porters.contains(&runtime) {
            queue.porters.push(runtime);
            drop(queue);
            tokio::spawn(Self { gate: gate.clone(), runtime, has_left: false }.stand());
        }
    }

    async fn stand(mut self) {
        while let Some(next) = self.look() {
            sleep_until(next).await;
        }
    }

    /// Wakes those whose time is over, and says when to look again; `None` if nobody waits.
    fn look(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let gate = self.gate.clone();
        let mut queue = gate.queue();
        if queue.waiting.is_empty() {
            self.leave(&mut queue);
            return None;
        }
        let late = queue.late(now);
        let next = queue.earliest.min(now + LOOK);
        drop(queue);
        late.into_iter().for_each(Waker::wake);
        Some(next)
    }

    fn leave(&mut self, queue: &mut Queue) {
        if !std::mem::replace(&mut self.has_left, true) {
            queue.porters.retain(|runtime| *runtime != self.runtime);
        }
    }
}

impl Drop for Porter {
    /// Dropped before its end, its runtime is shut down, and those who wait there go with it.
    fn drop(&mut self) {
        let gate = self.gate.clone();
        self.leave(&mut gate.queue());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(9);

    /// A gate whose passes are all taken.
    async fn busy(gate: &Gate) -> Vec<Pass<'_>> {
        let mut passes = Vec::new();
        for _ in 0..MOST_ATTEMPTS {
            passes.push(gate.pass(|| SHORT).await.unwrap());
        }
        passes
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_too_many_waits_for_a_pass_to_come_back_and_not_longer_than_allowed() {
        let gate = Gate::default();
        let mut passes = busy(&gate).await;
        let start = Instant::now();
        assert!(gate.pass(|| SHORT).await.is_none());
        assert!((SHORT..=SHORT + LOOK).contains(&start.elapsed()), "{:?}", start.elapsed());
        let (next, ()) = tokio::join!(gate.pass(|| SHORT), async { drop(passes.pop()) });
        assert!(next.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_all_the_time_in_the_world_waits() {
        let gate = Gate::default();
        let mut passes = busy(&gate).await;
        let (next, ()) = tokio::join!(gate.pass(|| Duration::MAX), async { drop(passes.pop()) });
        assert!(next.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_impatient_are_told_in_time_though_others_have_longer() {
        let gate = Gate::default();
        let _passes = busy(&gate).await;
        let start = Instant::now();
        let wait = |limit| {
            let gate = &gate;
            async move { (gate.pass(|| limit).await.is_some(), start.elapsed()) }
        };
        let late = async {
            tokio::time::sleep(LONG / 2).await;
            wait(SHORT).await
        };
        let (long, short, late) = tokio::join!(wait(LONG), wait(SHORT), late);
        for ((passed, took), limit) in [(long, LONG), (short, SHORT), (late, LONG / 2 + SHORT)] {
            assert!(!passed && (limit..=limit + LOOK).contains(&took), "{took:?} instead of {limit:?}");
        }
        assert!(gate.queue().waiting.is_empty(), "who left takes no place");
    }

    #[tokio::test(start_paused = true)]
    async fn passes_are_given_in_the_order_of_coming_and_those_who_left_get_none() {
        let gate = Gate::default();
        let mut passes = busy(&gate).await;
        let order = Mutex::new(Vec::new());
        let wait = |number| {
            let (gate, order) = (&gate, &order);
            async move {
                let _pass = gate.pass(|| LONG).await.unwrap();
                order.lock().unwrap().push(number);
            }
        };
        let gives_up = timeout(SHORT, wait(9));
        let comes_back = async {
            tokio::time::sleep(2 * SHORT).await;
            drop(passes.pop());
        };
        let (_, (), left, (), ()) = tokio::join!(wait(0), wait(1), gives_up, wait(2), comes_back);
        assert!(left.is_err());
        assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
        drop(passes);
        assert_eq!(gate.queue().free, MOST_ATTEMPTS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_that_came_to_somebody_who_left_goes_to_the_next() {
        let gate = Gate::default();
        let mut passes = busy(&gate).await;
        let mut first = Box::pin(gate.pass(|| LONG));
        assert!(poll_once(&mut first).is_pending());
        let mut second = Box::pin(gate.pass(|| LONG));
        assert!(poll_once(&mut second).is_pending());
        drop(passes.pop());
        // It is the first one's now, who does not look any more.
        drop(first);
        assert!(matches!(poll_once(&mut second), Poll::Ready(Some(_))));
    }

    fn poll_once<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test(start_paused = true)]
    async fn the_porter_goes_when_nobody_waits_and_is_called_again() {
        let gate = Gate::default();
        let passes = busy(&gate).await;
        for _ in 0..2 {
            assert!(gate.pass(|| SHORT).await.is_none());
            assert_eq!(gate.queue().porters.len(), 1);
            tokio::time::sleep(2 * LOOK).await;
            assert!(gate.queue().porters.is_empty());
        }
        drop(passes);
    }

    #[test]
    fn who_waits_in_one_runtime_does_not_depend_on_another() {
        let gate = Gate::default();
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (idle, other) = (runtime(), runtime());
        let _passes = idle.block_on(busy(&gate));
        // Its porter stands still from here on, as nobody drives this runtime.
        let mut waits = Box::pin(gate.pass(|| LONG));
        idle.block_on(async { assert!(poll_once(&mut waits).is_pending()) });
        assert!(other.block_on(async { timeout(LONG, gate.pass(|| SHORT)).await.unwrap() }).is_none());
        drop((waits, idle));
        assert!(gate.queue().porters.iter().all(|porter| *porter == other.handle().id()));
    }
}
