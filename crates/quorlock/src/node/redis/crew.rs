//! One task for the connections to all servers of a locker, and when it writes.

use super::driver::Driver;
use super::link::Link;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use tokio::runtime::{Handle, Id};
use tokio::task::coop::has_budget_remaining;

/// The drivers of a locker's servers, all in one task. Cheap to clone.
///
/// A question goes to all servers. With a task for each of them, a runtime with several threads would wake another thread for
/// every question, and the memory of the connections would go from core to core.
///
/// Commands that come together should go in one write. So the first of a crowd [calls](Crew::call) the crew, which lets the
/// tasks that are ready go first and only then has all drivers write what there is.
#[derive(Clone, Default)]
pub(crate) struct Crew(Arc<Mutex<Vec<Desk>>>);

/// What one of the tasks shares with everybody else. There is one task for each runtime that drivers were started in, thus one as
/// a rule: another runtime may be idle, or end.
struct Desk {
    runtime: Id,
    /// Wakes the task, once it has begun.
    task: Option<Waker>,
    newcomers: Vec<Driver>,
    /// Whether a write is wanted.
    is_called: bool,
}

impl Crew {
    /// Has `driver` run in `runtime`. Its link must not be locked: a runtime that shuts down drops it at once.
    pub(super) fn join(&self, runtime: &Handle, driver: Driver) {
        let mut desks = self.desks();
        if let Some(desk) = desks.iter_mut().find(|desk| desk.runtime == runtime.id()) {
            desk.newcomers.push(driver);
            return desk.wake();
        }
        desks.push(Desk { runtime: runtime.id(), task: None, newcomers: vec![driver], is_called: false });
        drop(desks);
        runtime.spawn(Shift::new(self.clone(), runtime.id()));
    }

    /// Has all drivers write, once the tasks that are ready have had their turn: what they send then goes in the same write.
    pub(super) fn call(&self) {
        for desk in self.desks().iter_mut().filter(|desk| !desk.is_called) {
            desk.is_called = true;
            desk.wake();
        }
    }

    fn desks(&self) -> MutexGuard<'_, Vec<Desk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").finish_non_exhaustive()
    }
}

impl Desk {
    fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }
}

/// The task. Dropped, it leaves the links as if none had ever been driven.
struct Shift {
    crew: Crew,
    runtime: Id,
    members: Vec<Member>,
    /// Who has the first turn.
    first: usize,
    /// Whether others were let go first, so that it is time to write.
    stepped_back: bool,
    is_over: bool,
}

impl Shift {
    fn new(crew: Crew, runtime: Id) -> Self {
        Self { crew, runtime, members: Vec::new(), first: 0, stepped_back: false, is_over: false }
    }

    /// Takes newcomers in, and if a write is wanted steps back or, after that, has everybody write.
    fn look_at_desk(&mut self, task: &Waker) {
        let mut desks = self.crew.desks();
        let Some(desk) = desks.iter_mut().find(|desk| desk.runtime == self.runtime) else { return };
        if desk.task.is_none() {
            desk.task = Some(task.clone());
        }
        let newcomers = std::mem::take(&mut desk.newcomers);
        let is_called = desk.is_called;
        if self.stepped_back {
            // What is sent from now on may come too late for this write, and calls again.
            desk.is_called = false;
        }
        drop(desks);
        self.members.extend(newcomers.into_iter().map(|driver| Member::new(driver, task)));
        if std::mem::take(&mut self.stepped_back) {
            self.members.iter().for_each(Member::call_to_write);
        } else if is_called {
            self.stepped_back = true;
            task.wake_by_ref();
        }
    }

    /// Gives each driver that was woken one turn. One that wakes itself meanwhile wants others to go first.
    fn drive(&mut self, task: &Waker) {
        let count = self.members.len();
        for place in 0..count {
            let next = (self.first + place) % count;
            if !has_budget_remaining() {
                // Tokio lets a task do only so much at a time. Whoever is left goes first the next time.
                self.first = next;
                task.wake_by_ref();
                break;
            }
            self.members[next].take_turn();
        }
        if self.members.iter().any(|member| member.is_over) {
            self.members.retain(|member| !member.is_over);
        }
    }

    /// Goes home if nobody is left and nobody has come.
    fn end(&mut self) -> Poll<()> {
        if !self.members.is_empty() {
            return Poll::Pending;
        }
        let mut desks = self.crew.desks();
        let is_mine = |desk: &Desk| desk.runtime == self.runtime;
        if desks.iter().any(|desk| is_mine(desk) && !desk.newcomers.is_empty()) {
            // Whoever came has woken us.
            return Poll::Pending;
        }
        desks.retain(|desk| !is_mine(desk));
        self.is_over = true;
        Poll::Ready(())
    }
}

impl Future for Shift {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let task = context.waker();
        self.look_at_desk(task);
        self.drive(task);
        self.end()
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // First, as a link whose driver is dropped may get a new one at once.
        let mut desks = self.crew.desks();
        let mine = desks.iter().position(|desk| desk.runtime == self.runtime);
        let mine = mine.map(|place| desks.swap_remove(place));
        drop(desks);
        drop(mine);
    }
}

/// One driver at work.
struct Member {
    link: Arc<Link>,
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
    ring: Arc<Ring>,
    waker: Waker,
    is_over: bool,
}

impl Member {
    fn new(driver: Driver, task: &Waker) -> Self {
        let ring = Arc::new(Ring { is_up: AtomicBool::new(true), task: task.clone() });
        let waker = ring.clone().into();
        Self { link: driver.link(), driver: Box::pin(driver.run()), ring, waker, is_over: false }
    }

    /// Has the driver write with its next turn, which must come at once.
    fn call_to_write(&self) {
        // Before the driver rings itself: the task is awake.
        self.ring.is_up.store(true, Ordering::Release);
        self.link.wake.notify_one();
    }

    fn take_turn(&mut self) {
        if self.ring.is_up.swap(false, Ordering::AcqRel) {
            let mut context = Context::from_waker(&self.waker);
            // A panic, which the hook has told by now, is the end of this connection and of no other.
            let turn = catch_unwind(AssertUnwindSafe(|| self.driver.as_mut().poll(&mut context)));
            self.is_over = turn.map_or(true, |turn| turn.is_ready());
        }
    }
}

/// Wakes the task for one driver.
struct Ring {
    is_up: AtomicBool,
    /// The waker of a spawned task stays the same.
    task: Waker,
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_up.swap(true, Ordering::AcqRel) {
            self.task.wake_by_ref();
        }
    }
}
