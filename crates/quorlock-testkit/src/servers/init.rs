//! Letting the nodes of a test vote at once.

use crate::eventually::{until, until_blocking};
use quorlock::{Locker, NodeOutcome, NodeReport, blocking};
use std::time::Duration;

/// A loaded machine may answer after the node timeout of a test; then the request is sent again.
const LIMIT: Duration = Duration::from_secs(20);

/// Initialises the nodes of `locker`, whose servers were just started.
///
/// # Panics
/// A node refuses, or does not answer within 20 s.
pub async fn init_nodes(locker: &Locker) {
    until("all nodes are initialised", LIMIT, async || all_initialised(&locker.init_fresh_nodes().await))
        .await;
}

/// The twin of [`init_nodes`] for the blocking library.
///
/// # Panics
/// A node refuses, or does not answer within 20 s.
pub fn init_nodes_blocking(locker: &blocking::Locker) {
    until_blocking("all nodes are initialised", LIMIT, || all_initialised(&locker.init_fresh_nodes()));
}

fn all_initialised(reports: &[NodeReport]) -> bool {
    let failed = reports.iter().filter(|report| !matches!(report.outcome, NodeOutcome::Yes));
    failed.inspect(|report| eprintln!("not initialised: {report}")).count() == 0
}
