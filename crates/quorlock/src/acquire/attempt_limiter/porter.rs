//! Tells those who wait at the gate that their time is over.

use crate::acquire::attempt_limiter::{Gate, LOOK, Queue};
use std::sync::MutexGuard;
use std::task::Waker;
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, sleep_until};

/// The one task of a runtime that tells those who wait that their time is over, as long as somebody waits.
pub(crate) struct Porter {
    gate: Gate,
    runtime: Id,
    /// Whether another one may be called.
    has_left: bool,
}

impl Porter {
    /// Sees to it that the current runtime has a porter.
    pub(crate) fn call(gate: &Gate, mut queue: MutexGuard<'_, Queue>) {
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
