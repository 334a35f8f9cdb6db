//! The event queue of a world: what will happen and when, in one order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
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
    events: BinaryHeap<Event>,
    count: u64,
    /// Whether the world is over, and nothing happens any more.
    is_over: bool,
}

struct Event {
    at: Instant,
    number: u64,
    action: Action,
}

impl Ord for Event {
    /// The first event is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

impl EventQueue {
    /// Drops everything that is scheduled, and whatever comes: actions and what they act on refer to each
    /// other, and would never be freed.
    pub(crate) fn end(&self) {
        let dropped = {
            let mut scheduled = self.0.scheduled.lock().unwrap();
            scheduled.is_over = true;
            std::mem::take(&mut scheduled.events)
        };
        drop(dropped);
    }

    /// Schedules `action` for `at`.
    pub(crate) fn schedule(&self, at: Instant, action: impl FnOnce() + Send + 'static) {
        let mut scheduled = self.0.scheduled.lock().unwrap();
        if scheduled.is_over {
            return;
        }
        scheduled.count += 1;
        let number = scheduled.count;
        let is_first = scheduled.events.peek().is_none_or(|first| at < first.at);
        scheduled.events.push(Event { at, number, action: Box::new(action) });
        drop(scheduled);
        if is_first {
            self.0.earlier.notify_one();
        }
    }

    /// Runs what is scheduled, for ever.
    pub(crate) async fn run(self) {
        loop {
            let next = self.0.scheduled.lock().unwrap().events.peek().map(|event| event.at);
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
        self.0.scheduled.lock().unwrap().events.pop().map(|event| event.action)
    }
}
