//! The clients of an asynchronous contestant: one task each, cycles until the time is over.

use crate::ledger::Ledger;
use crate::usage::Usage;
use crate::{answer, told};
use anyhow::Result;
use peers::histogram::{BUCKETS, Histogram, bucket_of};
use peers::protocol::{Order, Outcome, Workload};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long a wait that is under way at the end may still take.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// One lock library.
pub trait Library: Send + Sync + 'static {
    /// What a client keeps between cycles.
    type Lock: Send + Sync;
    type Held: Send;

    fn version(&self) -> String;
    fn lock(&self, name: &str) -> Self::Lock;
    /// One call of the library; `None` if it gave up.
    fn acquire(&self, lock: &Self::Lock) -> impl Future<Output = Option<Self::Held>> + Send;
    fn release(&self, held: Self::Held) -> impl Future<Output = ()> + Send;
    /// CPU time of other processes that work for the clients.
    fn other_cpu_us(&self) -> u64 {
        0
    }
    /// Ends those processes.
    fn finish(&self) {}
}

/// Warms up, waits for the word, measures and answers.
pub async fn run(library: impl Library, order: Order) -> Result<()> {
    let ledger = order.ledger.as_deref().map(Ledger::open).transpose()?;
    let contest = Arc::new(Contest { library, order, ledger });
    if contest.order.warmup > 0.0 {
        // Every name is taken at least once.
        let turns = if contest.order.workload == Workload::Many { contest.order.turns() } else { 0 };
        measure(&contest, contest.order.warmup, turns).await;
    }
    told()?;
    let outcome = measure(&contest, contest.order.seconds, 0).await;
    contest.library.finish();
    answer(&outcome)
}

/// What all clients work with.
struct Contest<L> {
    library: L,
    order: Order,
    ledger: Option<Ledger>,
}

/// What a client did in time.
#[derive(Clone, Copy, Default)]
struct Count {
    cycles: u64,
    handoffs: u64,
}

/// Cycles of all clients for `seconds`, and until each has had `turns`.
async fn measure<L: Library>(contest: &Arc<Contest<L>>, seconds: f64, turns: usize) -> Outcome {
    let library = &contest.library;
    let tally = Arc::new(Tally::default());
    let (before, other) = (Usage::now(), library.other_cpu_us());
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut clients = JoinSet::new();
    for number in 0..contest.order.clients {
        clients.spawn(client(contest.clone(), tally.clone(), number, end, turns));
    }
    sleep(end - Instant::now()).await;
    let used = Usage::now().since(before);
    let other = library.other_cpu_us() - other;
    let counts = clients.join_all().await;
    let cycles = || counts.iter().map(|count| count.cycles);
    Outcome {
        version: library.version(),
        seconds,
        cycles: cycles().sum(),
        handoffs: contest.ledger.as_ref().map(|_| counts.iter().map(|count| count.handoffs).sum()),
        failed: tally.failed.load(Ordering::Relaxed),
        least: cycles().min().unwrap_or(0),
        most: cycles().max().unwrap_or(0),
        cpu_us: used.cpu_us + other,
        acquire: Histogram::of(tally.waits.iter().map(|count| count.load(Ordering::Relaxed))),
        allocs: Some(used.allocs),
    }
}

/// What the clients count together.
struct Tally {
    waits: [AtomicU64; BUCKETS],
    failed: AtomicU64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { waits: [const { AtomicU64::new(0) }; BUCKETS], failed: AtomicU64::new(0) }
    }
}

/// One client, until the time is over and it has had `turns`.
async fn client<L: Library>(
    contest: Arc<Contest<L>>,
    tally: Arc<Tally>,
    number: usize,
    end: Instant,
    turns: usize,
) -> Count {
    let Contest { library, order, ledger } = &*contest;
    let mut lock = library.lock(&order.name(number));
    let hold = order.hold();
    let mut count = Count::default();
    for turn in 0.. {
        let asked = Instant::now();
        if asked >= end && turn >= turns {
            break;
        }
        if order.workload == Workload::Many {
            lock = library.lock(&order.name_in_turn(number, turn));
        }
        let held = acquire(library, &lock, &tally, end + LAST_WAIT).await;
        tally.waits[bucket_of(asked.elapsed())].fetch_add(1, Ordering::Relaxed);
        let Some(held) = held else { break };
        let is_handoff = ledger.as_ref().is_some_and(|ledger| ledger.sign(number));
        if !hold.is_zero() {
            keep(hold).await;
        }
        library.release(held).await;
        if Instant::now() < end {
            count.cycles += 1;
            count.handoffs += u64::from(is_handoff);
        }
    }
    count
}

/// Asks until the lock is granted; `None` after `limit`.
async fn acquire<L: Library>(library: &L, lock: &L::Lock, tally: &Tally, limit: Instant) -> Option<L::Held> {
    loop {
        if let Some(held) = library.acquire(lock).await {
            return Some(held);
        }
        tally.failed.fetch_add(1, Ordering::Relaxed);
        if Instant::now() >= limit {
            return None;
        }
    }
}

/// Tokio's timer has a resolution of 1 ms, which would make a hold of 1 ms one of up to 2 ms, only for us.
async fn keep(hold: Duration) {
    let _ = tokio::task::spawn_blocking(move || std::thread::sleep(hold)).await;
}
