//! Fencing at a value in Redis: the resource refuses what an outdated holder writes.
#![allow(clippy::unwrap_used)]

use quorlock::fenced::{FencedStore, Written};
use quorlock::{Fence, Locker};
use quorlock_testkit::Server;
use std::time::Duration;

#[tokio::test]
async fn only_fences_that_are_not_older_write() {
    let server = Server::start();
    let store = FencedStore::open(&server.url()).unwrap();
    assert_eq!(store.get("report").await.unwrap(), None);
    assert_eq!(store.set("report", "a", Fence::new(33)).await.unwrap(), Written::Yes);
    assert_eq!(store.set("report", "b", Fence::new(33)).await.unwrap(), Written::Yes);
    assert_eq!(store.set("report", "c", Fence::new(34)).await.unwrap(), Written::Yes);
    assert_eq!(
        store.set("report", "old", Fence::new(33)).await.unwrap(),
        Written::Stale { seen: Fence::new(34) }
    );
    assert_eq!(store.get("report").await.unwrap().as_deref(), Some(&b"c"[..]));
    assert_eq!(store.seen("report").await.unwrap(), Some(Fence::new(34)));
    assert_eq!(server.cli(&["GET", "report"]), "c", "any client reads it as it is");
}

#[tokio::test]
async fn large_fences_are_compared_exactly() {
    let server = Server::start();
    let store = FencedStore::open(&server.url()).unwrap();
    let fence = Fence::new(1_763_240_000_123_457);
    assert_eq!(store.set("k", "new", fence).await.unwrap(), Written::Yes);
    assert_eq!(
        store.set("k", "old", Fence::new(fence.get() - 1)).await.unwrap(),
        Written::Stale { seen: fence }
    );
}

#[tokio::test]
async fn what_could_not_be_read_again_is_not_written() {
    let server = Server::start();
    let store = FencedStore::open(&server.url()).unwrap();
    let longest = "x".repeat(64 * 1024);
    assert_eq!(store.set("k", &longest, Fence::new(1)).await.unwrap(), Written::Yes);
    assert_eq!(store.get("k").await.unwrap().unwrap().len(), longest.len());
    assert!(store.set("k", longest + "x", Fence::new(2)).await.unwrap_err().to_string().contains("64 KiB"));
    assert_eq!(store.seen("k").await.unwrap(), Some(Fence::new(1)));
}

/// Goal: a process paused past its ttl. Two believe that they hold the lock; the resource decides.
#[tokio::test]
async fn a_paused_holder_cannot_overwrite_the_next_one() {
    let server = Server::start();
    let store = FencedStore::open(&server.url()).unwrap();
    let lock = Locker::builder().nodes([server.url()]).build().unwrap().named("report-lock").unwrap();
    let short = lock.clone().watchdog(false).ttl(Duration::from_millis(300));
    let paused = short.acquire().await.unwrap();
    let next = lock.acquire().await.unwrap();
    assert_eq!(store.set("report", "new", next.fence()).await.unwrap(), Written::Yes);
    let late = store.set("report", "old", paused.fence()).await.unwrap();
    assert_eq!(late, Written::Stale { seen: next.fence() });
}

#[tokio::test]
async fn a_server_that_could_forget_fences_is_refused() {
    let server = Server::builder().maxmemory("100mb", "allkeys-lru").start();
    let store = FencedStore::open(&server.url()).unwrap();
    assert!(store.set("k", "v", Fence::new(1)).await.unwrap_err().to_string().contains("noeviction"));
    assert!(FencedStore::open("memory:").is_err());
}
