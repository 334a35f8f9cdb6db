//! Servers that die, stop and come back.

use crate::setting::{SOON, builder, causes, copies, fresh, secs};
use quorlock::node::NodeError;
use quorlock::{AcquireError, Event, ReleaseOutcome};
use quorlock_testkit::{Fsync, Server, Servers, until};
use std::sync::{Arc, Mutex};
use std::time::Instant;

#[tokio::test]
async fn with_two_of_five_servers_killed_locks_go_on() {
    let mut servers = Servers::start(5);
    let (one, other) = (fresh(&servers).await, builder(&servers).build().unwrap());
    let held = one.named("held").unwrap().acquire().await.unwrap();
    servers[0].kill();
    servers[3].kill();

    let guard = one.named("new").unwrap().acquire().await.unwrap();
    assert!(matches!(other.named("new").unwrap().try_acquire().await, Err(AcquireError::Held { .. })));
    assert!(held.extend().await.is_ok(), "a lock that was held before goes on, too");
    // Dead servers refuse at once: an acquire is not slower than its round trip.
    let start = Instant::now();
    for number in 0..20 {
        let guard = one.named(format!("quick-{number}")).unwrap().acquire().await.unwrap();
        assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    }
    assert!(
        start.elapsed() < secs(4),
        "20 cycles took {:?}, as if each waited for the dead",
        start.elapsed()
    );
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    assert!(matches!(held.release().await, ReleaseOutcome::Released));
}

#[tokio::test]
async fn with_three_of_five_servers_killed_nobody_gets_a_lock_and_each_cause_is_named() {
    let mut servers = Servers::start(5);
    let locker = fresh(&servers).await;
    for number in 0..3 {
        servers[number].kill();
    }
    let refused = locker.named("a").unwrap().wait_timeout(secs(1)).acquire().await.unwrap_err();
    let causes = causes(refused);
    assert_eq!(causes.len(), 3, "{causes:?}");
    for cause in causes {
        assert!(matches!(cause, NodeError::Unreachable { .. } | NodeError::Disconnected { .. }), "{cause:?}");
    }
}

#[tokio::test]
async fn a_stopped_server_that_wakes_up_keeps_nothing_of_a_failed_attempt() {
    let servers = Servers::start(3);
    let locker = fresh(&servers).await;
    servers[0].pause();
    servers[1].pause();
    let refused = locker.named("a").unwrap().try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::NoQuorum { .. })), "{refused:?}");
    servers[0].resume();
    servers[1].resume();
    // They now execute the SET that was sent to them, and the undo behind it.
    for server in servers.iter() {
        until("nothing is left", SOON, async || server.cli(&["EXISTS", "a"]) == "0").await;
    }
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
}

#[tokio::test]
async fn one_stopped_server_delays_nobody() {
    let servers = Servers::start(3);
    let locker = fresh(&servers).await;
    servers[1].pause();
    let start = Instant::now();
    for number in 0..20 {
        let guard = locker.named(format!("n{number}")).unwrap().acquire().await.unwrap();
        assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    }
    assert!(start.elapsed() < secs(4), "20 cycles at 200 ms each would be 8 s: {:?}", start.elapsed());
    servers[1].resume();
}

#[tokio::test]
async fn a_release_reaches_a_server_that_was_away() {
    let mut servers = Servers::start_like(&Server::builder().aof(Fsync::Always), 3);
    let locker = fresh(&servers).await;
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    until("all have it", SOON, async || copies(&locker, &guard).await == 3).await;
    servers[2].kill();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    servers[2].restart(); // with its memory: it still has the lock
    until("the release came after", secs(5), async || servers[2].cli(&["EXISTS", "a"]) == "0").await;
}

#[tokio::test]
async fn observers_hear_of_nodes_and_locks() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let mut servers = Servers::start(3);
    let events = heard.clone();
    let locker = builder(&servers)
        .observer(move |event: &Event| events.lock().unwrap().push(format!("{event:?}")))
        .build()
        .unwrap();
    quorlock_testkit::init_nodes(&locker).await;
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    servers[0].kill();
    let heard_of = |word: &str| heard.lock().unwrap().iter().any(|event| event.starts_with(word));
    until("the node is down", SOON, async || heard_of("NodeDown")).await;
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    for word in ["NodeUp", "Acquired", "Released"] {
        assert!(heard_of(word), "{word}");
    }
}
