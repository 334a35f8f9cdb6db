//! The checks that every kind of node must pass.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod primitives;

use quorlock::{AcquireError, Builder, ExtendError, Fence, Holder, Locker, LossReason, ReleaseOutcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Short, so that expiry can be seen; long enough for a busy machine.
const TTL: Duration = Duration::from_millis(2_500);
/// Everything that must happen soon happens within this on the slowest machine. A Consul cluster ends what a dead
/// client held after 20 s.
const SOON: Duration = Duration::from_secs(60);

/// Runs all checks at the same time on lockers that `builder` makes, each on names of its own.
pub async fn conforms(builder: impl Fn() -> Builder) {
    let locker = || builder().ttl(TTL).node_timeout(Duration::from_millis(600)).build().unwrap();
    let (one, other) = (&locker(), &locker());
    tokio::join!(
        excludes_until_released(one, other),
        a_dropped_guard_releases(one, other),
        fences_grow(one, other),
        an_expired_lock_is_free_and_its_release_an_outcome(one, other),
        the_watchdog_outlives_the_ttl(one, other),
        a_wrong_token_changes_nothing(one, other),
        a_waiter_is_woken_by_the_release(one, other),
        a_handle_moves_the_lock(one, other),
        any_text_can_be_a_name(one, other),
        concurrent_increments_are_not_lost(one, other),
        a_token_is_enough_to_keep_the_lock(one, other),
        a_held_lock_is_listed_until_released(one, other),
    );
    primitives::conform(one, other).await;
}

async fn excludes_until_released(one: &Locker, other: &Locker) {
    let guard = one.named("excludes").unwrap().reason("suite").acquire().await.unwrap();
    let refused = other.named("excludes").unwrap().try_acquire().await;
    let Err(AcquireError::Held { holder: Holder::Owner { token, owner, fence }, left, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((token, fence), (guard.token(), guard.fence()));
    assert_eq!(owner.reason.as_deref(), Some("suite"));
    // Nodes that count whole seconds keep it somewhat longer.
    assert!(left.is_some_and(|left| left <= TTL + Duration::from_secs(1)), "{left:?}");
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    let seen = other.named("excludes").unwrap().inspect().await.unwrap();
    assert!(!seen.is_held(), "{seen:?}");
    assert!(seen.nodes.iter().all(|node| node.view.is_ok()), "{seen:?}");
    drop(other.named("excludes").unwrap().try_acquire().await.unwrap());
}

async fn a_dropped_guard_releases(one: &Locker, other: &Locker) {
    drop(one.named("dropped").unwrap().acquire().await.unwrap());
    let start = Instant::now();
    let lock = other.named("dropped").unwrap();
    drop(lock.acquire().await.unwrap());
    assert!(start.elapsed() < TTL, "it did not have to run out: {:?}", start.elapsed());
}

async fn fences_grow(one: &Locker, other: &Locker) {
    let mut last = Fence::NONE;
    for round in 0..20 {
        let locker = if round % 2 == 0 { one } else { other };
        let guard = locker.named("fences").unwrap().acquire().await.unwrap();
        assert!(guard.fence() > last);
        last = guard.fence();
        assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    }
}

async fn an_expired_lock_is_free_and_its_release_an_outcome(one: &Locker, other: &Locker) {
    let guard = one.named("expires").unwrap().watchdog(false).acquire().await.unwrap();
    let lost = timeout(SOON, guard.lost()).await.unwrap();
    assert_eq!(lost.reason, LossReason::Expired);
    let next = other.named("expires").unwrap().wait_timeout(SOON).acquire().await.unwrap();
    assert!(next.fence() > guard.fence());
    assert!(!guard.is_held());
    assert!(matches!(guard.release().await, ReleaseOutcome::AlreadyGone));
    assert!(
        matches!(next.release().await, ReleaseOutcome::Released),
        "the old release did not touch the new lock"
    );
}

async fn the_watchdog_outlives_the_ttl(one: &Locker, other: &Locker) {
    let guard = one.named("kept").unwrap().acquire().await.unwrap();
    sleep(TTL * 2).await;
    assert!(guard.is_held());
    assert!(matches!(other.named("kept").unwrap().try_acquire().await, Err(AcquireError::Held { .. })));
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
}

async fn a_wrong_token_changes_nothing(one: &Locker, other: &Locker) {
    let stale = one.named("token").unwrap().acquire().await.unwrap();
    let old = stale.token();
    assert!(matches!(stale.release().await, ReleaseOutcome::Released));
    let guard = one.named("token").unwrap().acquire().await.unwrap();
    assert!(matches!(other.named("token").unwrap().force_release(old).await, ReleaseOutcome::AlreadyGone));
    assert!(guard.extend().await.is_ok());
    assert!(matches!(
        other.named("token").unwrap().force_release(guard.token()).await,
        ReleaseOutcome::Released
    ));
}

async fn a_waiter_is_woken_by_the_release(one: &Locker, other: &Locker) {
    let guard = one.named("hint").unwrap().acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = other.named("hint").unwrap().wait_timeout(SOON);
        async move { lock.acquire().await.map(|guard| guard.fence()) }
    });
    sleep(Duration::from_millis(300)).await;
    let fence = guard.fence();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    let next = timeout(SOON, waiter).await.unwrap().unwrap().unwrap();
    assert!(next > fence);
}

async fn a_handle_moves_the_lock(one: &Locker, other: &Locker) {
    let guard = one.named("moves").unwrap().acquire().await.unwrap();
    let fence = guard.fence();
    let handle = guard.into_handle().await.unwrap();
    let adopted = other.adopt(&handle).await.unwrap();
    assert_eq!(adopted.fence(), fence);
    sleep(TTL * 2).await;
    assert!(adopted.is_held());
    assert!(matches!(adopted.release().await, ReleaseOutcome::Released));
    assert!(other.adopt(&handle).await.is_err());
}

async fn a_token_is_enough_to_keep_the_lock(one: &Locker, other: &Locker) {
    let lock = one.named("kept-by-token").unwrap().watchdog(false).outlives_process(true);
    let (guard, rival) = (lock.acquire().await.unwrap(), other.named("kept-by-token").unwrap());
    for _ in 0..4 {
        let extended = rival.extend_token(guard.token(), TTL).await.unwrap();
        assert_eq!(extended.fence, Some(guard.fence()));
        assert!(extended.left < TTL && extended.left > Duration::ZERO);
        sleep(TTL / 3).await;
    }
    assert!(matches!(rival.try_acquire().await, Err(AcquireError::Held { .. })), "it outlived its ttl");
    assert!(matches!(rival.force_release(guard.token()).await, ReleaseOutcome::Released));
    assert!(matches!(rival.extend_token(guard.token(), TTL).await, Err(ExtendError::Lost(_))));
}

async fn a_held_lock_is_listed_until_released(one: &Locker, other: &Locker) {
    let lists = async || {
        let listing = other.list().await.unwrap();
        assert!(listing.complete);
        listing.held.iter().any(|seen| seen.name.as_str() == "listed \u{1f512}")
    };
    let guard = one.named("listed \u{1f512}").unwrap().acquire().await.unwrap();
    assert!(lists().await);
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    assert!(!lists().await);
}

async fn any_text_can_be_a_name(one: &Locker, other: &Locker) {
    for name in ["a b/c\\d", "..", "잠금", "%41", "*", "{x}", &"n".repeat(512)] {
        let guard = one.named(name).unwrap().acquire().await.unwrap();
        let refused = other.named(name).unwrap().try_acquire().await;
        assert!(matches!(refused, Err(AcquireError::Held { .. })), "{name}: {refused:?}");
        assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    }
}

async fn concurrent_increments_are_not_lost(one: &Locker, other: &Locker) {
    const EACH: u64 = 25;
    let counter = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for number in 0..8 {
        let lock = if number % 2 == 0 { one } else { other }.named("counter").unwrap().wait_timeout(SOON * 6);
        let counter = counter.clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..EACH {
                let guard = lock.acquire().await.unwrap();
                let seen = counter.load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                counter.store(seen + 1, Ordering::SeqCst);
                assert!(matches!(guard.release().await, ReleaseOutcome::Released));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counter.load(Ordering::SeqCst), 8 * EACH);
}
