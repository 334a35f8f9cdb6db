//! What stays behind after thousands of locks: nothing, neither here nor on the servers.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

mod net;

use net::{Net, SOON, secs};
use quorlock::Locker;
use quorlock_testkit::until;
use std::sync::{Arc, Mutex};

/// Tests of this file look at the memory of the whole process, so they take turns.
static ALONE: Mutex<()> = Mutex::new(());

const WORKERS: usize = 20;

/// Acquires and releases `cycles` locks of different names.
async fn cycle(locker: &Locker, prefix: &str, cycles: usize) {
    let work = (0..WORKERS).map(|worker| {
        let (locker, prefix) = (locker.clone(), prefix.to_owned());
        tokio::spawn(async move {
            for cycle in 0..cycles / WORKERS {
                let name = format!("{prefix}-{worker}-{cycle}");
                let guard = locker.named(name).unwrap().wait_timeout(secs(60)).acquire().await.unwrap();
                if cycle % 2 == 0 { drop(guard) } else { net::release(guard).await }
            }
        })
    });
    for worker in work.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
}

/// What this process occupies, in kilobytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn until_idle(locker: &Locker) {
    until("nothing waits", SOON, async || locker.health().iter().all(|node| node.health.queued == 0)).await;
}

#[tokio::test]
#[allow(clippy::await_holding_lock)]
async fn thousands_of_locks_leave_no_memory_behind_also_with_a_dead_server() {
    let _alone = ALONE.lock().unwrap();
    let mut net = Net::start(0).await;
    let locker = net.locker().await;
    cycle(&locker, "warm", 2_000).await;
    until_idle(&locker).await;
    let before = resident();
    cycle(&locker, "more", 4_000).await;
    net.servers[0].kill();
    // As many as are remembered for a dead server at most, and then as many again.
    cycle(&locker, "dead", 5_000).await;
    let full = resident();
    cycle(&locker, "deader", 5_000).await;
    until_idle(&locker).await;
    let after = resident();
    assert!(full < before + 8_000, "{before} kB grew to {full} kB");
    assert!(after < full + 2_000, "{full} kB grew to {after} kB");
}

#[tokio::test]
#[allow(clippy::await_holding_lock)]
async fn thousands_of_names_are_waited_for_at_once_and_no_subscription_stays() {
    let _alone = ALONE.lock().unwrap();
    const NAMES: usize = 1_500;
    let net = Net::start(1).await;
    let holder = net.locker().await;
    let waiter = net.builder().build().unwrap();
    let mut guards = Vec::new();
    for number in 0..NAMES {
        let lock = holder.named(format!("name-{number}")).unwrap().watchdog(false);
        guards.push(lock.acquire().await.unwrap());
    }
    let granted = Arc::new(Mutex::new(0));
    let waiting: Vec<_> = (0..NAMES)
        .map(|number| {
            let lock = waiter.named(format!("name-{number}")).unwrap().wait_timeout(secs(60));
            let granted = granted.clone();
            tokio::spawn(async move {
                net::release(lock.acquire().await.unwrap()).await;
                *granted.lock().unwrap() += 1;
            })
        })
        .collect();
    let channels = |server: &quorlock_testkit::Server| server.cli(&["PUBSUB", "CHANNELS"]).lines().count();
    for server in net.servers.iter() {
        until("all subscribed", SOON, async || channels(server) == NAMES).await;
    }
    // A new connection has to ask for them all again.
    net.proxies[0].cut();
    until("the cut is noticed", SOON, async || channels(&net.servers[0]) < NAMES).await;
    until("all subscribed again", SOON, async || channels(&net.servers[0]) == NAMES).await;
    assert_eq!(*granted.lock().unwrap(), 0);
    drop(guards);
    for waiter in waiting {
        waiter.await.unwrap();
    }
    for server in net.servers.iter() {
        until("no subscription stays", SOON, async || channels(server) == 0).await;
    }
    net.until_free("name").await;
}
