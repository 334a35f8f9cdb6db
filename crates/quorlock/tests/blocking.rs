//! The blocking twin: the same words, and a watchdog that runs between calls.
#![allow(clippy::unwrap_used)]

use quorlock::blocking::Locker;
use quorlock::{AcquireError, Builder, CancellationToken, LeaderChange, LossReason, ReleaseOutcome};
use quorlock_testkit::{Servers, until_blocking};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_millis(1_500);

fn locker(servers: &Servers) -> Locker {
    let locker: Locker = Builder::default()
        .nodes(servers.urls())
        .ttl(TTL)
        .node_timeout(Duration::from_millis(300))
        .build_blocking()
        .unwrap();
    quorlock_testkit::init_nodes_blocking(&locker);
    locker
}

#[test]
fn the_watchdog_runs_while_the_caller_computes() {
    let servers = Servers::start(3);
    let locker = locker(&servers);
    let guard = locker.named("a").unwrap().acquire().unwrap();
    // The caller blocks its thread and calls nothing for two ttls.
    thread::sleep(TTL * 2);
    assert!(guard.is_held());
    assert!(matches!(locker.named("a").unwrap().try_acquire(), Err(AcquireError::Held { .. })));
    assert!(matches!(guard.release(), ReleaseOutcome::Released));
    assert!(!locker.named("a").unwrap().inspect().unwrap().is_held());
}

#[test]
fn threads_take_turns_and_lose_no_update() {
    let servers = Servers::start(3);
    let locker = locker(&servers);
    let counter = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..6)
        .map(|_| {
            let (lock, counter) =
                (locker.named("a").unwrap().wait_timeout(Duration::from_secs(60)), counter.clone());
            thread::spawn(move || {
                for _ in 0..20 {
                    let add = |_: &_| {
                        let seen = counter.load(Ordering::SeqCst);
                        thread::yield_now();
                        counter.store(seen + 1, Ordering::SeqCst);
                    };
                    lock.run(add).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(counter.load(Ordering::SeqCst), 120);
}

#[test]
fn a_loss_reaches_blocking_code() {
    let mut servers = Servers::start(3);
    let locker = locker(&servers);
    let guard = locker.named("a").unwrap().acquire().unwrap();
    let token = guard.lost_token();
    assert!(guard.lost_within(Duration::from_millis(1)).is_none());
    for number in 0..3 {
        servers[number].kill();
    }
    let lost = guard.lost_within(Duration::from_secs(10)).unwrap();
    assert_eq!(lost.reason, LossReason::QuorumLost);
    assert!(token.is_cancelled() && !guard.is_held());
}

#[test]
fn another_thread_can_cancel_the_wait() {
    let servers = Servers::start(1);
    let locker = locker(&servers);
    let _guard = locker.named("a").unwrap().acquire().unwrap();
    let cancel = CancellationToken::new();
    let lock = locker.named("a").unwrap().cancel_on(cancel.clone()).wait_timeout(Duration::from_secs(60));
    let waiter = thread::spawn(move || lock.acquire().map(drop));
    cancel.cancel();
    assert!(matches!(waiter.join().unwrap(), Err(AcquireError::Cancelled { .. })));
}

#[test]
fn a_dropped_guard_has_released_when_the_program_ends_right_after_it() {
    let servers = Servers::start(3);
    let locker = locker(&servers);
    let lock = locker.named("a").unwrap();
    for _ in 0..50 {
        drop(lock.acquire().unwrap());
        let copies = servers.iter().filter(|server| server.cli(&["EXISTS", "a"]) == "1").count();
        assert!(copies <= 1, "a majority has it still");
    }
}

#[test]
fn a_dropped_guard_does_not_wait_for_servers_that_do_not_answer() {
    let servers = Servers::start(3);
    let locker = locker(&servers);
    let lock = locker.named("a").unwrap();
    for mute in [1, 3] {
        let guard = lock.acquire().unwrap();
        servers.iter().take(mute).for_each(|server| server.pause());
        let start = Instant::now();
        drop(guard);
        assert!(start.elapsed() < Duration::from_millis(900), "{mute}: {:?}", start.elapsed());
        servers.iter().take(mute).for_each(|server| server.resume());
        until_blocking("released", Duration::from_secs(5), || servers[2].cli(&["EXISTS", "a"]) == "0");
    }
}

#[tokio::test]
async fn it_can_be_called_from_within_an_async_runtime() {
    let locker = Builder::default().nodes(["memory:"]).build_blocking().unwrap();
    let guard = locker.named("a").unwrap().acquire().unwrap();
    assert!(matches!(guard.release(), ReleaseOutcome::Released));
}

#[test]
fn an_observer_sees_the_leader_and_that_it_resigned() {
    let servers = Servers::start(3);
    let (locker, limit) = (locker(&servers), Duration::from_secs(20));
    let election = locker.election("e").unwrap();
    let mut observed = election.observe();
    assert_eq!(observed.next(Duration::from_millis(10)).unwrap(), None);
    let leadership = election.campaign("a").unwrap();
    let last_term = leadership.term();
    let Some(LeaderChange::Elected(leader)) = observed.next(limit).unwrap() else { panic!("no leader") };
    assert_eq!((leader.value.as_str(), leader.term), ("a", last_term));
    assert!(matches!(leadership.resign(), ReleaseOutcome::Released));
    assert_eq!(observed.next(limit).unwrap(), Some(LeaderChange::Vacant { last_term }));
    let mut late = election.observe_after(Some(last_term));
    assert_eq!(late.next(limit).unwrap(), Some(LeaderChange::Vacant { last_term }));
}
