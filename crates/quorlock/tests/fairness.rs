//! A writer that waits gets its turn among readers that never leave the lock alone.
#![allow(clippy::unwrap_used)]

use quorlock::{Event, Guard, Locker, ReleaseOutcome};
#[cfg(feature = "etcd")]
use quorlock_testkit::Etcd;
use quorlock_testkit::{Servers, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(60);
const READERS: u32 = 100;
const LOCKERS: usize = 4;

/// How long each read takes, from and to.
const SHORT: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));
/// Longer than the mark of a waiting writer lasts on the nodes, so that the writer must renew it.
const LONG: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What the readers of one test share.
#[derive(Default)]
struct Readers {
    is_over: AtomicBool,
    /// How many hold the lock now.
    holding: AtomicUsize,
    /// How many reads have begun.
    reads: AtomicU64,
}

impl Readers {
    /// Shares the lock again and again, for `span` each time.
    async fn read_on(self: Arc<Self>, locker: Locker, span: Duration) {
        let lock = locker.named("a").unwrap().shared().wait_timeout(2 * SOON);
        while !self.is_over.load(Ordering::SeqCst) {
            let guard = lock.acquire().await.unwrap();
            self.holding.fetch_add(1, Ordering::SeqCst);
            self.reads.fetch_add(1, Ordering::SeqCst);
            sleep(span).await;
            self.holding.fetch_sub(1, Ordering::SeqCst);
            let _outcome = guard.release().await;
        }
    }

    /// Takes the lock alone, within a ttl of `called`.
    async fn write(self: Arc<Self>, locker: Locker, called: Instant) -> Guard {
        let before = self.reads.load(Ordering::SeqCst);
        let lock = locker.named("a").unwrap().wait_timeout(3 * TTL);
        let guard = lock.acquire().await;
        let (waited, reads) = (called.elapsed(), self.reads.load(Ordering::SeqCst) - before);
        println!("a writer waited {waited:?} among {reads} reads");
        let guard = guard.unwrap();
        assert!(waited <= TTL, "a writer waited {waited:?} among {reads} reads");
        assert_eq!(self.holding.load(Ordering::SeqCst), 0, "a reader has the lock, too");
        guard
    }
}

/// A hundred readers read for `shortest` to `longest` each, without a pause. A writer that comes has the lock
/// within a ttl, and so has one that comes while the first has it; the readers go on after them.
async fn writers_get_their_turn(urls: Vec<String>, (shortest, longest): (Duration, Duration)) {
    let builder = || Locker::builder().nodes(urls.clone()).ttl(TTL).node_timeout(Duration::from_millis(500));
    let lockers: Vec<Locker> = (0..LOCKERS).map(|_| builder().build().unwrap()).collect();
    quorlock_testkit::init_nodes(&lockers[0]).await;
    let (readers, mut tasks) = (Arc::new(Readers::default()), JoinSet::new());
    for number in 0..READERS {
        let locker = lockers[number as usize % LOCKERS].clone();
        let span = shortest + (longest - shortest) * number / READERS;
        tasks.spawn(readers.clone().read_on(locker, span));
    }
    let reads = || readers.reads.load(Ordering::SeqCst);
    until("all readers read", SOON, async || reads() >= 2 * u64::from(READERS)).await;

    let first = readers.clone().write(builder().build().unwrap(), Instant::now()).await;
    let is_waiting = Arc::new(AtomicBool::new(false));
    let observer = {
        let is_waiting = is_waiting.clone();
        move |event: &Event| {
            if matches!(event, Event::Waiting { .. }) {
                is_waiting.store(true, Ordering::SeqCst);
            }
        }
    };
    let other = builder().observer(observer).build().unwrap();
    let second = tokio::spawn(readers.clone().write(other, Instant::now()));
    until("another writer waits", SOON, async || is_waiting.load(Ordering::SeqCst)).await;
    assert!(matches!(first.release().await, ReleaseOutcome::Released));
    let second = second.await.unwrap();
    assert!(matches!(second.release().await, ReleaseOutcome::Released));

    let before = reads();
    until("readers go on", SOON, async || reads() >= before + u64::from(READERS)).await;
    readers.is_over.store(true, Ordering::SeqCst);
    tasks.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_among_readers_that_come_and_go() {
    let servers = Servers::start(3);
    writers_get_their_turn(servers.urls(), SHORT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_among_readers_that_read_for_seconds() {
    let servers = Servers::start(3);
    writers_get_their_turn(servers.urls(), LONG).await;
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_etcd_among_readers_that_come_and_go() {
    let etcd = Etcd::start(1);
    writers_get_their_turn(vec![etcd.url()], SHORT).await;
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_etcd_among_readers_that_read_for_seconds() {
    let etcd = Etcd::start(1);
    writers_get_their_turn(vec![etcd.url()], LONG).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_file_among_readers_that_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    writers_get_their_turn(vec![format!("file://{}", directory.path().display())], SHORT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_file_among_readers_that_read_for_seconds() {
    let directory = tempfile::tempdir().unwrap();
    writers_get_their_turn(vec![format!("file://{}", directory.path().display())], LONG).await;
}
