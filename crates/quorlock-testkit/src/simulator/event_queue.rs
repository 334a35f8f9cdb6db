//! The event queue of a world: what will happen and when, in one order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Something that happens at its time.
pub(crate) type Action = Box<dyn FnOnce() + Send>;

/// Actions in the order of their time; those of one moment in the order in which they were
/// scheduled.
#[derive(Clone, Default)]
pub(crate) struct EventQueue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    scheduled: Mutex<Scheduled>,
    earlier: Notify,
}

#[derive(Default)]
struct Scheduled {
    times: BinaryHeap<Reverse<(Instant, u64)>>,
    actions: BTreeMap<u64, Action>,
    count: u64,
}

impl EventQueue {
    /// Schedules `action` for `at`.
    pub(crate) fn schedule(&self, at: Instant, action: impl FnOnce() + Send + 'static) {
        let mut scheduled = self.0.scheduled.lock().unwrap();
        scheduled.count += 1;
        let number = scheduled.count;
        let is_first = scheduled.times.peek().is_none_or(|Reverse((first, _))| at < *first);
        scheduled.times.push(Reverse((at, number)));
        scheduled.actions.insert(number, Box::new(action));
        drop(scheduled);
        if is_first {
            self.0.earlier.notify_one();
        }
    }

    /// Runs what is scheduled, for ever.
    pub(crate) async fn run(self) {
        loop {
            let next = self.0.scheduled.lock().unwrap().times.peek().map(|Reverse((at, _))| *at);
            match next {
                Some(at) if at <= Instant::now() => {
                    if let Some(action) = self.pop() {
                        action();
                    }
                }
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = self.0.earlier.notified() => {}
                        () = sleep_until(at) => {}
                    }
                }
                None => self.0.earlier.notified().await,
            }
        }
    }

    fn pop(&self) -> Option<Action> {
        let mut scheduled = self.0.scheduled.lock().unwrap();
        let Reverse((_, number)) = scheduled.times.pop()?;
        scheduled.actions.remove(&number)
    }
}
