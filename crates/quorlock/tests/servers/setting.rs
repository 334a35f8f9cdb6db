//! Lockers on real servers, and what can be asked of them.

use quorlock::node::{Content, NodeError};
use quorlock::{AcquireError, Builder, Guard, Locker, NodeOutcome};
use quorlock_testkit::Servers;
use std::time::Duration;

pub const SOON: Duration = Duration::from_secs(20);

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn builder(servers: &Servers) -> Builder {
    Locker::builder().nodes(servers.urls()).node_timeout(Duration::from_millis(500))
}

pub async fn fresh(servers: &Servers) -> Locker {
    let locker = builder(servers).build().unwrap();
    quorlock_testkit::init_nodes(&locker).await;
    locker
}

/// On how many nodes the lock of `guard` is stored.
pub async fn copies(locker: &Locker, guard: &Guard) -> usize {
    let lock = locker.named(guard.name()).unwrap();
    let Ok(seen) = lock.inspect().await else { return 0 };
    let ours = |content: &Content| matches!(content, Content::Lock(stored) if stored.token == guard.token());
    seen.nodes.iter().filter(|node| node.view.as_ref().is_ok_and(|view| ours(&view.content))).count()
}

pub fn causes(error: AcquireError) -> Vec<NodeError> {
    let AcquireError::NoQuorum { nodes, .. } = error else { panic!("{error}") };
    let cause = |outcome| if let NodeOutcome::Failed(cause) = outcome { Some(cause) } else { None };
    nodes.into_iter().filter_map(|report| cause(report.outcome)).collect()
}
