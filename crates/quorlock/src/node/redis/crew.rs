//! One task for the connections to all servers of a locker, and when it writes.

use super::driver::Driver;
use super::link::Link;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use tokio::runtime::Handle;

/// The drivers of a locker's servers, all in one task. Cheap to clone.
///
/// A question goes to all servers. With a task for each of them, a runtime with several threads would wake another thread for
/// every question, and the memory of the connections would go from core to core.
///
/// Commands that come together should go in one write. So the first of a crowd [calls](Crew::call) the crew, which lets the
/// tasks that are ready go first and only then has all drivers write what there is.
#[derive(Clone, Default)]
pub(crate) struct Crew(Arc<Office>);

/// What the task and everybody else share.
#[derive(Default)]
struct Office {
    desk: Mutex<Desk>,
    /// Whether a write is wanted.
    is_called: AtomicBool,
}

#[derive(Default)]
struct Desk {
    /// Whether there is a task, or will be in a moment.
    is_manned: bool,
    /// Wakes the task, once it has begun.
    task: Option<Waker>,
    newcomers: Vec<Driver>,
}

impl Crew {
    /// Has `driver` run, in the task that there is, or else in a new one of `runtime`. The link of the driver must not be locked: a
    /// runtime that shuts down drops it at once.
    pub(super) fn join(&self, runtime: &Handle, driver: Driver) {
        let mut desk = self.0.desk();
        desk.newcomers.push(driver);
        if desk.is_manned {
            return desk.wake();
        }
        desk.is_manned = true;
        drop(desk);
        runtime.spawn(Shift::new(self.0.clone()));
    }

    /// Has all drivers write, once the tasks that are ready have had their turn: what they send then goes in the same write.
    pub(super) fn call(&self) {
        if !self.0.is_called.swap(true, Ordering::AcqRel) {
            self.0.desk().wake();
        }
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").finish_non_exhaustive()
    }
}

impl Office {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    /// Notes that the task is gone, and gives back who came too late for it.
    fn leave(&mut self) -> Vec<Driver> {
        self.is_manned = false;
        self.task = None;
        std::mem::take(&mut self.newcomers)
    }
}

/// The task. Dropped, it leaves the links as if none had ever been driven.
struct Shift {
    office: Arc<Office>,
    members: Vec<Member>,
    /// Who has the first turn: not always the same, as tokio lets a task do only so much at a time.
    first: usize,
    /// Whether others were let go first, so that it is time to write.
    stepped_back: bool,
    is_over: bool,
}

impl Shift {
    fn new(office: Arc<Office>) -> Self {
        Self { office, members: Vec::new(), first: 0, stepped_back: false, is_over: false }
    }

    fn take_in(&mut self, task: &Waker) {
        let newcomers = {
            let mut desk = self.office.desk();
            if desk.task.is_none() {
                desk.task = Some(task.clone());
            }
            std::mem::take(&mut desk.newcomers)
        };
        self.members.extend(newcomers.into_iter().map(|driver| Member::new(driver, task)));
    }

    /// Steps back if a write is wanted; with our next turn everybody writes.
    fn usher(&mut self, task: &Waker) {
        if std::mem::take(&mut self.stepped_back) {
            // What is sent from now on may come too late for this write, and calls again.
            self.office.is_called.store(false, Ordering::Release);
            self.members.iter().for_each(|member| member.link.wake.notify_one());
        } else if self.office.is_called.load(Ordering::Acquire) {
            self.stepped_back = true;
            task.wake_by_ref();
        }
    }

    /// Gives each driver that was woken one turn: one that wakes itself meanwhile wants others to go first.
    fn drive(&mut self) {
        let count = self.members.len();
        for place in 0..count {
            self.members[(self.first + place) % count].take_turn();
        }
        self.first = self.first.wrapping_add(1);
        if self.members.iter().any(|member| member.is_over) {
            self.members.retain(|member| !member.is_over);
        }
    }

    /// Goes home if nobody is left and nobody has come.
    fn end(&mut self) -> Poll<()> {
        if !self.members.is_empty() {
            return Poll::Pending;
        }
        let mut desk = self.office.desk();
        if !desk.newcomers.is_empty() {
            // Whoever came has woken us.
            return Poll::Pending;
        }
        desk.leave();
        self.is_over = true;
        Poll::Ready(())
    }
}

impl Future for Shift {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let task = context.waker();
        self.take_in(task);
        self.usher(task);
        self.drive();
        self.end()
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        if !self.is_over {
            // First, as a link whose driver is dropped may get a new one at once.
            let newcomers = self.office.desk().leave();
            drop(newcomers);
        }
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

    fn take_turn(&mut self) {
        if self.ring.is_up.swap(false, Ordering::AcqRel) {
            let mut context = Context::from_waker(&self.waker);
            self.is_over = self.driver.as_mut().poll(&mut context).is_ready();
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
