//! Servers that forget, are new, or remember.

use crate::setting::{SOON, builder, causes, copies, fresh, secs};
use quorlock::node::NodeError;
use quorlock::{AcquireError, Locker, ReleaseOutcome, RestartGuard};
use quorlock_testkit::{Fsync, Server, Servers, until};
use std::time::Instant;

#[tokio::test]
async fn servers_that_nobody_initialised_wait_and_say_how_long() {
    let servers = Servers::start(3);
    let locker = builder(&servers).build().unwrap();
    let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
    assert!(refused.to_string().contains("initialise"), "{refused}");
    for cause in causes(refused) {
        assert!(
            matches!(cause, NodeError::Quarantined { left } if left > secs(35) && left <= secs(40)),
            "{cause:?}"
        );
    }
    quorlock_testkit::init_nodes(&locker).await;
    drop(locker.named("a").unwrap().try_acquire().await.unwrap());
}

#[tokio::test]
async fn the_quarantine_ends_by_itself() {
    let servers = Servers::start(3);
    let short = || builder(&servers).ttl(secs(3)).longest_ttl(secs(3));
    let start = Instant::now();
    let guard = short().wait_timeout(secs(30)).build().unwrap().named("a").unwrap().acquire().await.unwrap();
    assert!(start.elapsed() >= secs(13), "longest ttl and twice the clock tolerance: {:?}", start.elapsed());
    drop(guard);
}

/// Goal: S4. Not even all servers together remember the last fence, and the next one is still above it.
#[tokio::test]
async fn fences_grow_although_all_servers_forgot() {
    let mut servers = Servers::start(3);
    let locker = builder(&servers).ttl(secs(3)).longest_ttl(secs(3)).wait_timeout(secs(30)).build().unwrap();
    quorlock_testkit::init_nodes(&locker).await;
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let before = guard.fence();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    for number in 0..3 {
        servers[number].restart();
        assert_eq!(servers[number].cli(&["EXISTS", "quorlock:fence:{a}"]), "0", "it forgot");
    }
    let after = locker.named("a").unwrap().acquire().await.unwrap();
    assert!(after.fence() > before, "{} after {before}", after.fence());
}

#[tokio::test]
async fn servers_that_restart_without_memory_do_not_vote_and_the_holder_repairs_them() {
    let mut servers = Servers::start(3);
    let (holder, rival) = (fresh(&servers).await, builder(&servers).build().unwrap());
    let guard = holder.named("a").unwrap().acquire().await.unwrap();
    // One after another, as a majority that forgets at the same moment is beyond every promise.
    for number in 0..2 {
        servers[number].restart();
        let refused = rival.named("a").unwrap().try_acquire().await;
        assert!(refused.is_err(), "two hold the lock: {refused:?}");
        until("the lock is repaired", SOON, async || copies(&holder, &guard).await == 3).await;
    }
    assert!(guard.is_held());
    let quarantined = |cause: &NodeError| matches!(cause, NodeError::Quarantined { .. });
    until("the rival knows that two are quarantined", SOON, async || {
        let refused = rival.named("b").unwrap().try_acquire().await.unwrap_err();
        causes(refused).iter().filter(|cause| quarantined(cause)).count() == 2
    })
    .await;
}

#[tokio::test]
async fn a_lock_survives_a_rolling_restart_of_all_five_servers() {
    let mut servers = Servers::start(5);
    let (holder, rival) = (fresh(&servers).await, builder(&servers).build().unwrap());
    let guard = holder.named("a").unwrap().acquire().await.unwrap();
    for number in 0..5 {
        servers[number].restart();
        until("the lock is repaired", SOON, async || copies(&holder, &guard).await == 5).await;
        assert!(rival.named("a").unwrap().try_acquire().await.is_err());
    }
    assert!(guard.is_held());
    assert!(guard.extend().await.is_ok());
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
}

#[tokio::test]
async fn a_flushed_server_is_caught_by_the_vote_and_does_not_count() {
    let servers = Servers::start(3);
    let (holder, rival) = (fresh(&servers).await, builder(&servers).build().unwrap());
    rival.connect().await.unwrap();
    let guard = holder.named("a").unwrap().watchdog(false).acquire().await.unwrap();
    // Two of three servers forget the lock while all connections stay up.
    servers[0].flushall();
    servers[1].flushall();
    for _ in 0..20 {
        let refused = rival.named("a").unwrap().try_acquire().await;
        assert!(refused.is_err(), "two hold the lock: {refused:?}");
    }
    until("the refused votes are undone", SOON, async || servers[0].cli(&["EXISTS", "a"]) == "0").await;
    drop(guard);
}

#[tokio::test]
async fn a_durable_server_votes_right_after_its_restart() {
    let mut servers = Servers::start_like(&Server::builder().aof(Fsync::Always), 3);
    let durable = || builder(&servers).durable(true).build().unwrap();
    let locker = durable();
    quorlock_testkit::init_nodes(&locker).await;
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let rival = durable();
    for number in 0..3 {
        servers[number].restart();
    }
    let refused = rival.named("a").unwrap().try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::Held { .. })), "nothing was forgotten: {refused:?}");
    until("all vote", SOON, async || rival.named("b").unwrap().try_acquire().await.is_ok()).await;
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_server_that_is_not_durable_cannot_be_marked_so() {
    let servers = Servers::start(1);
    let locker = builder(&servers).durable(true).build().unwrap();
    let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
    assert!(matches!(causes(refused)[..], [NodeError::NotDurable { .. }]));
}

/// Goal: S7. A failover is one more way to forget, also where every write is on disk: what the primary had answered last
/// its replica may not have.
#[tokio::test]
async fn a_replica_that_took_over_does_not_vote_on_as_its_primary_did() {
    let durable = || Server::builder().aof(Fsync::Always);
    let locker = |server: &Server| {
        let builder = Locker::builder().nodes([server.url()]).durable(true);
        builder.restart_guard(RestartGuard::Strict).build().unwrap()
    };
    let primary = durable().start();
    quorlock_testkit::init_nodes(&locker(&primary)).await;
    let mut replica = durable().start();
    replica.cli(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    until("the mark is copied", SOON, async || replica.cli(&["EXISTS", "quorlock:epoch"]) == "1").await;
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    for _ in 0..2 {
        let refused = locker(&replica).named("a").unwrap().try_acquire().await.unwrap_err();
        let quarantined = |cause: &NodeError| matches!(cause, NodeError::Quarantined { .. });
        let causes = causes(refused);
        assert!(causes.iter().all(quarantined), "it votes with another's memory: {causes:?}");
        // From here on it is a primary that remembers, its quarantine included.
        replica.restart();
    }
}
