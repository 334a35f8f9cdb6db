//! How an engine reports that a name may have become free, and how its reports are kept going.

use crate::node::Wakeup;
use crate::node::engine::Engine;
use quorlock_core::Name;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

/// How long after the reports broke off they are begun again, at first and at most.
const DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What an engine reports to.
#[derive(Debug)]
pub(crate) struct Hints {
    wakeup: Wakeup,
    begun: Option<oneshot::Sender<()>>,
    /// Whether what happened before the reports began was missed.
    is_late: bool,
}

impl Hints {
    /// Reports to `wakeup`, for tests of an engine.
    #[cfg(test)]
    #[cfg_attr(not(feature = "etcd"), allow(dead_code))]
    pub(crate) fn to(wakeup: &Wakeup) -> Self {
        Self { wakeup: wakeup.clone(), begun: None, is_late: false }
    }

    /// Declares that everything which happens from now on is reported.
    pub(crate) fn begin(&mut self) {
        if let Some(begun) = self.begun.take() {
            let _ = begun.send(());
            if self.is_late {
                self.wakeup.notify();
            }
        }
    }

    /// Reports that the name may have become free.
    pub(crate) fn notify(&self) {
        self.wakeup.notify();
    }
}

/// Follows `name` until the task is aborted. Returns once the engine reports everything that happens after
/// `since`, or after `limit`: then the waiter polls in the meantime.
pub(crate) async fn spawn<E: Engine>(
    engine: Arc<E>,
    name: Name,
    since: u64,
    wakeup: Wakeup,
    limit: Duration,
) -> tokio::task::AbortHandle {
    let (begun, beginning) = oneshot::channel();
    let first = Hints { wakeup: wakeup.clone(), begun: Some(begun), is_late: false };
    let following = tokio::spawn(async move {
        let mut delay = DELAYS.0;
        let mut hints = first;
        let mut since = since;
        loop {
            let start = Instant::now();
            engine.follow(&name, since, hints).await;
            // One that ends at once must not be begun again and again.
            if start.elapsed() >= DELAYS.1 {
                delay = DELAYS.0;
            }
            sleep(delay).await;
            delay = (delay * 2).min(DELAYS.1);
            // Whatever happened in between was not reported.
            hints = Hints { wakeup: wakeup.clone(), begun: Some(oneshot::channel().0), is_late: true };
            since = 0;
        }
    });
    let _ = timeout(limit, beginning).await;
    following.abort_handle()
}
