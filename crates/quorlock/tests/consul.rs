//! A Consul cluster as the one node of a locker: servers that die or stand still, and what an examination finds.
#![allow(clippy::unwrap_used)]

use quorlock::node::Facts;
use quorlock::{AcquireError, Builder, Locker, ReleaseOutcome};
use quorlock_testkit::{Consul, until};
use std::time::{Duration, Instant};
use tokio::time::timeout;

const TTL: Duration = Duration::from_secs(8);
const SOON: Duration = Duration::from_secs(60);

fn builder(url: &str) -> Builder {
    Locker::builder().nodes([url]).ttl(TTL).node_timeout(Duration::from_millis(500)).wait_timeout(SOON)
}

fn locker(url: &str) -> Locker {
    builder(url).build().unwrap()
}

#[tokio::test]
async fn a_lock_is_kept_while_the_leader_dies() {
    if !Consul::is_here() {
        return;
    }
    // Long enough for an election on a loaded machine.
    let ttl = Duration::from_secs(20);
    let mut consul = Consul::start(3);
    let (one, other) = (locker(&consul.url()), locker(&consul.url()));
    let guard = one.named("kept").unwrap().ttl(ttl).acquire().await.unwrap();
    let leader = consul.leader();
    consul.kill(leader);
    let start = Instant::now();
    let kept = async || start.elapsed() > ttl && guard.is_held();
    until("the watchdog found another server in time", ttl + Duration::from_secs(5), kept).await;
    assert!(other.named("kept").unwrap().wait_timeout(Duration::from_secs(1)).acquire().await.is_err());
    let fence = guard.fence();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    let next = other.named("kept").unwrap().acquire().await.unwrap();
    assert!(next.fence() > fence);
}

#[tokio::test]
async fn a_leader_that_stands_still_is_passed_by() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(3);
    let locker = locker(&consul.url());
    drop(locker.named("before").unwrap().acquire().await.unwrap());
    let leader = consul.leader();
    consul.pause(leader);
    let guard = locker.named("after").unwrap().ttl(3 * TTL).acquire().await.unwrap();
    consul.resume(leader);
    assert!(guard.is_held());
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
}

#[tokio::test]
async fn without_a_majority_nothing_is_granted_and_a_held_lock_is_lost_in_time() {
    if !Consul::is_here() {
        return;
    }
    let mut consul = Consul::start(3);
    let locker = locker(&consul.url());
    let guard = locker.named("lost").unwrap().acquire().await.unwrap();
    let leader = consul.leader();
    consul.kill(leader);
    consul.kill((leader + 1) % 3);
    let refused = locker.named("other").unwrap().wait_timeout(Duration::from_secs(1)).acquire().await;
    assert!(matches!(refused, Err(AcquireError::NoQuorum { .. })), "{refused:?}");
    let start = Instant::now();
    timeout(SOON, guard.lost()).await.unwrap();
    assert!(start.elapsed() < TTL, "before others can have it");
    assert!(matches!(guard.release().await, ReleaseOutcome::Unconfirmed { .. }));
}

#[tokio::test]
async fn a_restarted_cluster_remembers() {
    if !Consul::is_here() {
        return;
    }
    let mut consul = Consul::start(1);
    let (one, other) = (locker(&consul.url()), locker(&consul.url()));
    let lock = one.named("remembered").unwrap().ttl(Duration::from_secs(30));
    let guard = lock.acquire().await.unwrap();
    consul.restart(0);
    let refused = other.named("remembered").unwrap().wait_timeout(Duration::from_secs(2)).acquire().await;
    assert!(matches!(refused, Err(AcquireError::Held { .. })), "{refused:?}");
    let fence = guard.fence();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    assert!(other.named("remembered").unwrap().acquire().await.unwrap().fence() > fence);
}

#[tokio::test]
async fn an_examination_passes_by_a_server_that_stands_still_and_names_it() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(3);
    let still = (consul.leader() + 1) % 3;
    let order = [still, (still + 1) % 3, (still + 2) % 3];
    let locker = locker(&consul.url_of(&order, None));
    consul.pause(still);
    let host = format!("localhost:{}", consul.client_ports()[still]);
    // The others may be slow on a loaded machine.
    until("that one alone is silent", SOON, async || {
        let examined = locker.examine().await;
        let Ok(Facts::Store(facts)) = &examined[0].found else { return false };
        (&facts.silent, facts.members, facts.has_leader) == (&vec![host.clone()], Some(3), true)
    })
    .await;
    consul.resume(still);
}
