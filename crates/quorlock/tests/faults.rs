//! Networks that misbehave before real servers: one bad node of three costs nothing, two are named.
#![allow(clippy::unwrap_used)]

mod net;

use net::{NODE_TIMEOUT, Net, SOON, kinds, release, secs, until_granted};
use quorlock::node::NodeError;
use quorlock::{AcquireError, Locker, LossReason, RestartGuard};
use quorlock_testkit::proxy::{Fault, Proxy};
use quorlock_testkit::{Fsync, Server, Servers, until, within};
use std::time::{Duration, Instant};

/// Everything that a proxy can do, with the cause that it must be given.
const FAULTS: [(Fault, &str); 11] = [
    (Fault::Delay(Duration::from_secs(2)), "timeout"),
    (Fault::Hold, "timeout"),
    (Fault::HoldReplies, "timeout"),
    (Fault::Swallow, "timeout"),
    (Fault::SwallowReplies, "timeout"),
    (Fault::Drip(Duration::from_millis(200)), "timeout"),
    (Fault::Garbage, "protocol"),
    (Fault::Huge(b"$536870913\r\n"), "protocol"),
    (Fault::Huge(b"*2147483647\r\n"), "protocol"),
    // A length that may be believed: nothing is wrong yet but the time it takes.
    (Fault::Huge(b"$60000\r\n"), "timeout"),
    (Fault::Refuse, "unreachable"),
];

/// What repeats bytes. The first copy of an answer is a true one, so nothing is refused; the second ends the
/// connection.
const DUPLICATES: [Fault; 2] = [Fault::DuplicateReplies, Fault::DuplicateRequests];

async fn begin(proxies: &[Proxy], fault: Fault) {
    for proxy in proxies {
        proxy.set(fault).await;
        if fault == Fault::Refuse {
            proxy.cut();
        }
    }
}

async fn end(proxies: &[Proxy], fault: Fault) {
    for proxy in proxies {
        proxy.set(Fault::Pass).await;
        // No TCP loses bytes and goes on.
        if matches!(fault, Fault::Swallow | Fault::SwallowReplies) {
            proxy.cut();
        }
    }
}

#[tokio::test]
async fn any_fault_of_one_node_delays_nothing_and_leaves_nothing_behind() {
    let net = Net::start(1).await;
    let locker = net.locker().await;
    for fault in FAULTS.map(|(fault, _)| fault).into_iter().chain(DUPLICATES) {
        let held = locker.named("held").unwrap().acquire().await.unwrap();
        begin(&net.proxies, fault).await;
        let start = Instant::now();
        for cycle in 0..10 {
            let guard = locker.named(format!("cycle-{cycle}")).unwrap().acquire().await.unwrap();
            assert!(guard.extend().await.is_ok(), "{fault:?}");
            release(guard).await;
            assert!(held.extend().await.is_ok(), "{fault:?}");
        }
        release(held).await;
        let took = start.elapsed();
        assert!(
            took < 5 * NODE_TIMEOUT,
            "{fault:?}: 41 rounds took {took:?}, as if they waited for one node"
        );
        end(&net.proxies, fault).await;
        net.until_whole(&locker).await;
        net.until_free("cycle").await;
        net.until_free("held").await;
    }
}

#[tokio::test]
async fn any_fault_of_two_nodes_is_named_within_the_wait_limit_and_one_node_timeout() {
    let net = Net::start(2).await;
    let locker = net.locker().await;
    let wait = 2 * NODE_TIMEOUT;
    for (fault, kind) in FAULTS {
        begin(&net.proxies, fault).await;
        let start = Instant::now();
        let refused = locker.named("refused").unwrap().wait_timeout(wait).acquire().await.unwrap_err();
        let took = start.elapsed();
        assert_eq!(kinds(&refused), [kind, kind], "{fault:?}: {refused}");
        assert!(took < wait + NODE_TIMEOUT + NODE_TIMEOUT / 2, "{fault:?}: {took:?}");
        end(&net.proxies, fault).await;
        until_granted(&locker, "granted").await;
        net.until_whole(&locker).await;
        net.until_free("refused").await;
    }
}

#[tokio::test]
async fn a_locker_whose_nodes_are_far_waits_for_a_majority_before_its_first_attempt() {
    let net = Net::start(2).await;
    net.locker().await;
    for proxy in &net.proxies {
        // Connecting takes more round trips than one node timeout has room for, a vote only one.
        proxy.set(Fault::Delay(NODE_TIMEOUT / 2)).await;
    }
    let locker = net.builder().build().unwrap();
    let guard = locker.named("first").unwrap().try_acquire().await.unwrap();
    end(&net.proxies, Fault::Pass).await;
    release(guard).await;
}

#[tokio::test]
async fn connections_that_are_cut_again_and_again_lose_no_release() {
    let net = Net::start(2).await;
    let locker = net.locker().await;
    for cycle in 0..100 {
        let lock = locker.named(format!("cycle-{cycle}")).unwrap();
        let attempt = tokio::spawn(async move { lock.try_acquire().await });
        net.proxies[cycle % 2].cut();
        if let Ok(guard) = attempt.await.unwrap() {
            net.proxies[(cycle + 1) % 2].cut();
            drop(guard);
        }
    }
    until_granted(&locker, "granted").await;
    net.until_whole(&locker).await;
    net.until_free("cycle").await;
}

#[tokio::test]
async fn a_locker_dropped_with_commands_in_flight_leaves_no_lock_behind() {
    let net = Net::start(1).await;
    net.locker().await;
    for round in 0..5 {
        let locker = net.builder().build().unwrap();
        locker.connect().await.unwrap();
        let mut guards = Vec::new();
        for number in 0..20 {
            let lock = locker.named(format!("flight-{round}-{number}")).unwrap();
            guards.push(lock.acquire().await.unwrap());
        }
        net.proxies[0].set(Fault::HoldReplies).await;
        drop(guards);
        drop(locker);
        net.proxies[0].set(Fault::Pass).await;
    }
    net.until_free("flight").await;
    for server in net.servers.iter() {
        until("all connections end", SOON, async || {
            !server.cli(&["CLIENT", "LIST"]).contains("name=quorlock")
        })
        .await;
    }
}

#[tokio::test]
async fn many_lockers_of_one_process_exclude_each_other_on_the_same_servers() {
    let net = Net::start(0).await;
    let mut lockers = vec![net.locker().await];
    lockers.extend((0..19).map(|_| net.builder().build().unwrap()));
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let work = lockers.into_iter().map(|locker| {
        let inside = inside.clone();
        tokio::spawn(async move {
            for _ in 0..3 {
                let guard = locker.named("one").unwrap().wait_timeout(secs(60)).acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                release(guard).await;
            }
        })
    });
    for worker in work.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
}

/// One client's way to five servers, each through a proxy of its own.
struct Side {
    proxies: Vec<Proxy>,
    locker: Locker,
}

impl Side {
    async fn of(servers: &Servers) -> Self {
        let mut proxies = Vec::new();
        for server in servers.iter() {
            proxies.push(Proxy::start(server.port()).await);
        }
        let builder = Locker::builder().nodes(proxies.iter().map(Proxy::url)).ttl(secs(3));
        let locker = builder.node_timeout(Duration::from_millis(250)).build().unwrap();
        Self { proxies, locker }
    }

    async fn set(&self, numbers: std::ops::Range<usize>, fault: Fault) {
        for proxy in &self.proxies[numbers] {
            proxy.set(fault).await;
        }
    }
}

#[tokio::test]
async fn in_a_split_of_three_and_two_the_larger_side_goes_on_and_the_smaller_gets_nothing() {
    let servers = Servers::start(5);
    let (large, small) = (Side::of(&servers).await, Side::of(&servers).await);
    quorlock_testkit::init_nodes(&large.locker).await;
    until_granted(&small.locker, "warm").await;
    let kept = large.locker.named("kept").unwrap().acquire().await.unwrap();
    let held = small.locker.named("held").unwrap().acquire().await.unwrap();
    large.set(3..5, Fault::Hold).await;
    small.set(0..3, Fault::Hold).await;

    let refused = small.locker.named("free").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(kinds(&refused), ["timeout"; 3], "{refused}");
    release(large.locker.named("free").unwrap().try_acquire().await.unwrap()).await;
    // What the smaller side held it loses before the larger one gets it.
    let lost = within("the loss", SOON * 3, held.lost()).await;
    assert_eq!(lost.reason, LossReason::QuorumLost);
    let taken = large.locker.named("held").unwrap().wait_timeout(SOON).acquire().await.unwrap();
    assert!(taken.fence() > held.fence() && !held.is_held());
    assert!(kept.is_held(), "three of five are enough to keep a lock");

    large.set(3..5, Fault::Pass).await;
    small.set(0..3, Fault::Pass).await;
    until("the smaller side sees who has it", SOON, async || {
        let refused = small.locker.named("held").unwrap().try_acquire().await;
        matches!(refused, Err(AcquireError::Held { .. }))
    })
    .await;
    release(taken).await;
    release(kept).await;
    until_granted(&small.locker, "held").await;
}

/// Goal: a handshake takes few round trips, whatever is asked in it: a server that is 200 ms away is reached within the one
/// second that connecting may take by default.
#[tokio::test]
async fn a_server_that_is_far_away_is_reached_within_the_default_connect_timeout() {
    let options = Server::builder().password("secret").aof(Fsync::Always);
    let server = options.start();
    let proxy = Proxy::start(server.port()).await;
    proxy.set(Fault::Delay(Duration::from_millis(200))).await;
    let url = format!("redis://default:secret@127.0.0.1:{}?durable=yes", proxy.port());
    // The node timeout is no reason to give connecting more time, as it was not set.
    let locker = Locker::builder().nodes([url]).restart_guard(RestartGuard::Strict).build().unwrap();
    let trouble = || locker.health()[0].health.trouble.clone();
    let is_quarantined = |trouble: &Option<NodeError>| matches!(trouble, Some(NodeError::Quarantined { .. }));
    locker.connect().await.unwrap_err();
    for _ in 0..2 {
        until("it is connected", SOON, async || is_quarantined(&trouble())).await;
        proxy.cut();
        until("the end is noticed", SOON, async || !is_quarantined(&trouble())).await;
    }
}
