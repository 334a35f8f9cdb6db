//! Giving a lock to another process, and taking one over.

use super::super::line::ReportLine;
use super::super::monotonic::now;
use super::{Client, Recorder};
use quorlock::{Guard, LockHandle};

impl Client {
    /// Gives the lock away as a handle, which the harness takes to another process.
    pub(crate) async fn hand_over(&mut self, guard: Guard) {
        // If the handle cannot be made, the lock is released: others may have it from here on.
        self.recorder.letting_go();
        if let Ok(handle) = guard.into_handle().await {
            let handle = serde_json::to_string(&handle).expect("plain data");
            Recorder::print(&ReportLine::GivenAway { handle });
        }
    }

    /// Goes on with a lock that another process gave away, under a guard or by its token.
    pub(crate) async fn take_over(&mut self, handle: LockHandle) {
        if self.rng.chance(30) {
            return self.receive_token(&handle).await;
        }
        let called = now();
        if let Ok(guard) = self.locker.adopt(&handle).await {
            self.recorder.adopted(&guard.lease(), called);
            self.work_under(&guard).await;
            self.let_go(guard).await;
        }
    }
}
