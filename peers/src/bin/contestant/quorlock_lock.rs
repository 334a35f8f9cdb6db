//! quorlock.

use crate::drive::{self, Library};
use crate::quorlock_primitives::{Semaphores, Sets, Sharing};
use crate::usage::Usage;
use crate::{answer, told, versions};
use anyhow::{Result, ensure};
use peers::histogram::Histogram;
use peers::protocol::{Order, Outcome, Workload};
use quorlock::{Guard, Lock, Locker, NodeOutcome, RestartGuard};
use std::time::Duration;

pub enum Mode {
    Default,
    /// Without fence and restart guard.
    Plain,
}

pub async fn run(order: Order, mode: Mode) -> Result<()> {
    let locker = locker(&order, &mode)?;
    // Some workloads run with nodes that do not answer.
    let _ = locker.connect().await;
    match order.workload {
        Workload::Held => hold(&locker, &order).await,
        Workload::Own | Workload::One | Workload::Many => drive::run(Quorlock(locker), order).await,
        Workload::SharedOwn | Workload::SharedOne => drive::run(Sharing(locker), order).await,
        Workload::Names => drive::run(Sets { locker, names: order.names }, order).await,
        Workload::PermitsOwn | Workload::PermitsOne => {
            drive::run(Semaphores { locker, slots: order.slots }, order).await
        }
    }
}

/// Lets nodes vote that are known to be new. Those that do not answer are left as they are.
pub async fn init(order: Order) -> Result<()> {
    // Not measured, and a loaded machine may take a while.
    let builder = Locker::builder().nodes(&order.nodes).ttl(order.ttl());
    let patient = builder.node_timeout(Duration::from_secs(2)).connect_timeout(Duration::from_secs(3));
    let done = patient.build()?.init_fresh_nodes().await;
    let fresh = done.iter().filter(|report| matches!(report.outcome, NodeOutcome::Yes)).count();
    ensure!(fresh > order.nodes.len() / 2, "too few nodes could be marked as fresh: {done:?}");
    Ok(())
}

fn locker(order: &Order, mode: &Mode) -> Result<Locker> {
    let mut builder = Locker::builder().nodes(&order.nodes).ttl(order.ttl());
    if let Mode::Plain = mode {
        builder = builder.fences(false).restart_guard(RestartGuard::Off);
    }
    if order.label_bytes > 0 {
        let half = "x".repeat(order.label_bytes / 2);
        builder = builder.owner(half.clone()).reason(half);
    }
    if let Some(limit) = order.node_timeout_ms {
        builder = builder.node_timeout(Duration::from_millis(limit));
    }
    Ok(builder.build()?)
}

struct Quorlock(Locker);

impl Library for Quorlock {
    type Lock = Lock;
    type Held = Guard;

    fn version(&self) -> String {
        versions::of("quorlock").to_owned()
    }

    fn lock(&self, name: &str) -> Lock {
        self.0.named(name).expect("the orchestrator gives good names")
    }

    async fn acquire(&self, lock: &Lock) -> Option<Guard> {
        lock.acquire().await.ok()
    }

    async fn release(&self, guard: Guard) {
        let _ = guard.release().await;
    }
}

/// Holds a lock per client and measures what their watchdogs cost.
async fn hold(locker: &Locker, order: &Order) -> Result<()> {
    let mut guards = Vec::with_capacity(order.clients);
    for client in 0..order.clients {
        guards.push(locker.named(order.name(client))?.acquire().await?);
    }
    told()?;
    let before = Usage::now();
    tokio::time::sleep(Duration::from_secs_f64(order.seconds)).await;
    let used = Usage::now().since(before);
    answer(&Outcome {
        version: versions::of("quorlock").to_owned(),
        seconds: order.seconds,
        cycles: 0,
        handoffs: None,
        failed: guards.iter().filter(|guard| !guard.is_held()).count() as u64,
        least: 0,
        most: 0,
        cpu_us: used.cpu_us,
        acquire: Histogram::default(),
        allocs: Some(used.allocs),
    })
}
