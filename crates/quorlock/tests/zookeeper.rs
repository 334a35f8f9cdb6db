//! A ZooKeeper ensemble as the one node of a locker: members that die or stand still, lost answers, and what
//! goes wrong.
#![allow(clippy::unwrap_used)]

use quorlock::node::Facts;
use quorlock::{AcquireError, Builder, Locker, ReleaseOutcome};
use quorlock_testkit::proxy::Fault;
use quorlock_testkit::{Proxy, ZooKeeper, until};
use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_secs(6);
const SOON: Duration = Duration::from_secs(60);

fn builder(url: &str) -> Builder {
    Locker::builder().nodes([url]).ttl(TTL).node_timeout(Duration::from_millis(500)).wait_timeout(SOON)
}

fn locker(url: &str) -> Locker {
    builder(url).build().unwrap()
}

#[tokio::test]
async fn a_lock_is_kept_while_the_leader_dies_and_its_fence_stays_below_the_next() {
    if !ZooKeeper::is_here() {
        return;
    }
    // Long enough for an election on a loaded machine.
    let ttl = Duration::from_secs(20);
    let mut ensemble = ZooKeeper::start(3);
    let (one, other) = (locker(&ensemble.url()), locker(&ensemble.url()));
    let guard = one.named("kept").unwrap().ttl(ttl).acquire().await.unwrap();
    let leader = ensemble.leader();
    ensemble.kill(leader);
    let start = Instant::now();
    let kept = async || start.elapsed() > ttl && guard.is_held();
    until("the watchdog found another member in time", ttl + Duration::from_secs(5), kept).await;
    assert!(other.named("kept").unwrap().wait_timeout(Duration::from_secs(1)).acquire().await.is_err());
    let fence = guard.fence();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    let next = other.named("kept").unwrap().acquire().await.unwrap();
    assert!(next.fence() > fence);
    assert!(matches!(next.release().await, ReleaseOutcome::Released));
    ensemble.restart(leader);
    drop(other.named("kept").unwrap().acquire().await.unwrap());
}

/// Goal: the lock of a holder that died before its leader did is not free too early under the next leader, whatever
/// its clock, and free soon after.
#[tokio::test]
async fn a_dead_holder_and_a_dead_leader_keep_a_lock_for_two_ttls_at_most() {
    if !ZooKeeper::is_here() {
        return;
    }
    let mut ensemble = ZooKeeper::start(3);
    let one = locker(&ensemble.url());
    let start = Instant::now();
    let guard = one.named("orphan").unwrap().acquire().await.unwrap();
    guard.detach();
    drop(one);
    let leader = ensemble.leader();
    ensemble.kill(leader);
    let other = locker(&ensemble.url());
    let free = async || other.named("orphan").unwrap().try_acquire().await.is_ok();
    until("it is free for one that does not wait", SOON, free).await;
    assert!(start.elapsed() >= TTL - Duration::from_millis(100), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_leader_that_stands_still_is_passed_by() {
    if !ZooKeeper::is_here() {
        return;
    }
    let ensemble = ZooKeeper::start(3);
    let locker = locker(&ensemble.url());
    drop(locker.named("before").unwrap().acquire().await.unwrap());
    let leader = ensemble.leader();
    ensemble.pause(leader);
    let guard = locker.named("after").unwrap().ttl(Duration::from_secs(30)).acquire().await.unwrap();
    ensemble.resume(leader);
    assert!(guard.is_held());
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
}

/// Goal: S8 and S9. An acquire whose answer was lost is undone, whether it was executed or is still on its way.
#[tokio::test]
async fn lost_answers_leave_no_lock_behind() {
    if !ZooKeeper::is_here() {
        return;
    }
    let ensemble = ZooKeeper::start(1);
    let proxy = Proxy::start(ensemble.client_ports()[0]).await;
    let one = locker(&format!("zk://127.0.0.1:{}", proxy.port()));
    let other = locker(&ensemble.url());
    drop(one.named("warm").unwrap().acquire().await.unwrap());
    for fault in [Fault::SwallowReplies, Fault::Hold, Fault::HoldReplies, Fault::Swallow] {
        proxy.set(fault).await;
        let lock = one.named("lost").unwrap();
        let failed = lock.wait_timeout(Duration::from_millis(100)).acquire().await;
        assert!(matches!(failed, Err(AcquireError::NoQuorum { .. })), "{fault:?}: {failed:?}");
        proxy.set(Fault::Pass).await;
        if matches!(fault, Fault::Swallow | Fault::SwallowReplies) {
            proxy.cut();
        }
        let start = Instant::now();
        let guard = other.named("lost").unwrap().acquire().await.unwrap();
        assert!(start.elapsed() < TTL, "{fault:?}: it was undone, not only over");
        // What was on its way has arrived by now, and the other holder still has it.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(guard.extend().await.is_ok(), "{fault:?}");
        assert!(matches!(guard.release().await, ReleaseOutcome::Released), "{fault:?}");
    }
}

#[tokio::test]
async fn a_restart_of_the_only_member_costs_no_lock() {
    if !ZooKeeper::is_here() {
        return;
    }
    let mut ensemble = ZooKeeper::start(1);
    let (one, other) = (locker(&ensemble.url()), locker(&ensemble.url()));
    let guard = one.named("kept").unwrap().ttl(Duration::from_secs(30)).acquire().await.unwrap();
    ensemble.kill(0);
    let waiting = tokio::spawn(async move {
        let refused = other.named("kept").unwrap().wait_timeout(Duration::from_secs(8)).acquire().await;
        (other, refused.is_err())
    });
    ensemble.restart(0);
    let (other, was_refused) = waiting.await.unwrap();
    assert!(was_refused && guard.is_held());
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    drop(other.named("kept").unwrap().acquire().await.unwrap());
}

#[tokio::test]
async fn an_examination_names_members_that_are_silent_and_the_version() {
    if !ZooKeeper::is_here() {
        return;
    }
    let ensemble = ZooKeeper::start(3);
    let locker = locker(&ensemble.url());
    let still = (ensemble.leader() + 1) % 3;
    ensemble.pause(still);
    let silent = format!("localhost:{}", ensemble.client_ports()[still]);
    until("that one alone is silent", SOON, async || {
        let examined = locker.examine().await;
        let Ok(Facts::Store(facts)) = &examined[0].found else { return false };
        assert!(facts.version.starts_with("zookeeper 3."), "{facts:?}");
        facts.has_leader && facts.members == Some(3) && facts.silent == [silent.clone()]
    })
    .await;
    ensemble.resume(still);
}

#[tokio::test]
async fn an_ensemble_without_a_majority_gives_no_lock_and_says_why() {
    if !ZooKeeper::is_here() {
        return;
    }
    let mut ensemble = ZooKeeper::start(3);
    let locker = locker(&ensemble.url());
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    ensemble.kill(0);
    ensemble.kill(1);
    let refused = async || {
        let failed = locker.named("b").unwrap().wait_timeout(Duration::from_millis(200)).acquire().await;
        failed.is_err_and(|error| format!("{error:?}").contains("majority"))
    };
    until("the member that is left says that it sees no majority", SOON, refused).await;
    tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    ensemble.restart(0);
    drop(locker.named("b").unwrap().acquire().await.unwrap());
}

#[tokio::test]
async fn waiters_are_woken_by_a_release_and_names_are_listed() {
    if !ZooKeeper::is_here() {
        return;
    }
    let ensemble = ZooKeeper::start(1);
    let (one, other) = (locker(&ensemble.url()), locker(&ensemble.url()));
    let guard = one.named("a/b é").unwrap().acquire().await.unwrap();
    let listed = other.list().await.unwrap();
    assert!(format!("{listed:?}").contains("a/b é"), "{listed:?}");
    let waiting = tokio::spawn(async move { other.named("a/b é").unwrap().acquire().await.map(drop) });
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
}
