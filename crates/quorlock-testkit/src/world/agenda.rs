//! What will happen in the world and when: one queue, one order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Something that happens at its time.
pub(super) type Deed = Box<dyn FnOnce() + Send>;

/// Deeds in the order of their time; those of one moment in the order in which they were planned.
#[derive(Clone, Default)]
pub(super) struct Agenda(Arc<Shared>);

#[derive(Default)]
struct Shared {
    planned: Mutex<Planned>,
    earlier: Notify,
}

#[derive(Default)]
struct Planned {
    times: BinaryHeap<Reverse<(Instant, u64)>>,
    deeds: BTreeMap<u64, Deed>,
    count: u64,
}

impl Agenda {
    /// Plans `deed` for `at`.
    pub(super) fn plan(&self, at: Instant, deed: impl FnOnce() + Send + 'static) {
        let mut planned = self.0.planned.lock().unwrap();
        planned.count += 1;
        let number = planned.count;
        let is_first = planned.times.peek().is_none_or(|Reverse((first, _))| at < *first);
        planned.times.push(Reverse((at, number)));
        planned.deeds.insert(number, Box::new(deed));
        drop(planned);
        if is_first {
            self.0.earlier.notify_one();
        }
    }

    /// Does what is planned, for ever.
    pub(super) async fn run(self) {
        loop {
            let next = self.0.planned.lock().unwrap().times.peek().map(|Reverse((at, _))| *at);
            match next {
                Some(at) if at <= Instant::now() => {
                    if let Some(deed) = self.take() {
                        deed();
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

    fn take(&self) -> Option<Deed> {
        let mut planned = self.0.planned.lock().unwrap();
        let Reverse((_, number)) = planned.times.pop()?;
        planned.deeds.remove(&number)
    }
}
