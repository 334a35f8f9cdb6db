//! Handing a lock over to another process, and accepting one.

use crate::nemesis::client::Client;
use crate::nemesis::client::recorder::Recorder;
use crate::nemesis::client::report_line::{Origin, ReportLine};
use crate::nemesis::monotonic::now;
use quorlock::{Guard, LockHandle};

impl Client {
    /// Hands the lock over as a handle, which the harness delivers to another process.
    pub(crate) async fn hand_over(&mut self, guard: Guard) {
        // If the handle cannot be made, the lock is released: others may have it from here on.
        self.recorder.releasing();
        if let Ok(handle) = guard.into_handle().await {
            let handle = serde_json::to_string(&handle).expect("plain data");
            Recorder::print(&ReportLine::HandedOver { handle });
        }
    }

    /// Continues with a lock that another process handed over, under a guard or by its token.
    pub(crate) async fn accept(&mut self, handle: LockHandle) {
        if self.rng.chance(30) {
            return self.receive_token(&handle).await;
        }
        let called = now();
        if let Ok(guard) = self.locker.adopt(&handle).await {
            self.recorder.holds(Origin::Adopted, &guard.lease(), called);
            self.work_under(&guard).await;
            self.release(guard).await;
        }
    }
}
