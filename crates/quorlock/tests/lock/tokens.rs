//! Extending by name and token alone: for programs that acquire in one process and extend in another.

use crate::world::{TTL, World, loss_of, ms};
use quorlock::{AcquireError, Event, ExtendError, LossReason, ReleaseOutcome};
use quorlock_testkit::{Fault, TestClock};
use std::time::Duration;
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn a_token_is_enough_to_extend_and_to_release() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    let (token, fence) = (guard.token(), guard.fence());
    let lock = world.lock("a");
    for _ in 0..3 {
        sleep(TTL / 2).await;
        let extended = lock.extend_token(token, TTL).await.unwrap();
        assert_eq!((extended.left, extended.votes), (ms(9_898), 2));
        assert_eq!(extended.fence, Some(fence));
    }
    assert!(matches!(lock.try_acquire().await, Err(AcquireError::Held { .. })), "it outlived its first ttl");
    assert!(matches!(lock.force_release(token).await, ReleaseOutcome::Released));
    drop(lock.try_acquire().await.unwrap());
}

/// Goal: S1. Node 3 misses an upgrade and stores the writer as a reader, next to which others may read. It does
/// not count when the writer goes on by its token.
#[tokio::test(start_paused = true)]
async fn a_node_that_missed_the_upgrade_does_not_extend_the_writer() {
    let world = World::of(3);
    let guard = world.lock("a").shared().watchdog(false).acquire().await.unwrap();
    world.nodes[2].set(Fault::Deaf);
    guard.try_upgrade().await.unwrap();
    let token = guard.token();
    guard.detach();
    world.nodes[2].set(Fault::None);
    world.lock("a").extend_token(token, TTL).await.unwrap();
    world.nodes[0].set(Fault::Deaf);
    let error = world.lock("a").extend_token(token, TTL).await.unwrap_err();
    assert!(matches!(error, ExtendError::NoQuorum { answered: 1, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_token_of_a_reader_is_extended_by_a_majority_that_stores_a_reader() {
    let world = World::of(3);
    let guard = world.lock("a").shared().watchdog(false).acquire().await.unwrap();
    let (token, fence) = (guard.token(), guard.fence());
    world.nodes[0].set(Fault::Deaf);
    let extended = world.lock("a").extend_token(token, TTL).await.unwrap();
    assert_eq!((extended.votes, extended.fence), (2, Some(fence)));
    guard.detach();
}

/// Goal: a release by a client that adopted an upgraded lock leaves nothing on a node that missed the upgrade.
#[tokio::test(start_paused = true)]
async fn an_adopted_lock_is_released_where_its_upgrade_was_missed() {
    let world = World::of(3);
    let guard = world.lock("a").shared().watchdog(false).acquire().await.unwrap();
    world.nodes[2].set(Fault::Deaf);
    guard.try_upgrade().await.unwrap();
    let handle = guard.into_handle().await.unwrap();
    world.nodes[2].set(Fault::None);
    let adopted = world.locker().adopt(&handle).await.unwrap();
    assert!(matches!(adopted.release().await, ReleaseOutcome::Released));
    assert_eq!(world.copies("a").await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_time_left_counts_from_before_the_first_send() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    world.break_nodes(2, &Fault::Slow(ms(40)));
    let extended = world.lock("a").extend_token(guard.token(), TTL).await.unwrap();
    assert!(extended.left <= ms(9_898 - 40), "{:?}", extended.left);
}

#[tokio::test(start_paused = true)]
async fn the_token_of_nobody_extends_nothing() {
    let world = World::of(3);
    let old = world.lock("a").acquire().await.unwrap();
    let stale = old.token();
    assert!(matches!(old.release().await, ReleaseOutcome::Released));
    let is_taken =
        |error: ExtendError| matches!(error, ExtendError::Lost(lost) if lost.reason == LossReason::Taken);
    assert!(is_taken(world.lock("a").extend_token(stale, TTL).await.unwrap_err()), "nobody holds it");
    let new = world.lock("a").watchdog(false).acquire().await.unwrap();
    assert!(is_taken(world.lock("a").extend_token(stale, TTL).await.unwrap_err()), "another holds it");
    assert!(new.is_held());
    sleep(TTL).await;
    drop(world.lock("a").try_acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn nodes_that_do_not_answer_are_no_loss_and_are_named() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    world.break_nodes(2, &Fault::Deaf);
    let error = world.lock("a").extend_token(guard.token(), TTL).await.unwrap_err();
    assert!(matches!(error, ExtendError::NoQuorum { answered: 1, .. }), "{error}");
    assert!(world.count_events(|event| matches!(event, Event::NodeFailed { .. })) >= 2);
    let short = world.lock("a").extend_token(guard.token(), Duration::from_millis(1)).await;
    assert!(matches!(short, Err(ExtendError::Config(_))), "{short:?}");
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_left_stays_held_for_whoever_has_its_token() {
    let world = World::of(3);
    let lock = world.lock("a");
    let guard = lock.clone().acquire().await.unwrap();
    let (token, held) = (guard.token(), guard.lease());
    guard.detach();
    assert_eq!(loss_of(&held).await.reason, LossReason::Released, "nobody here keeps it alive");
    assert!(matches!(lock.try_acquire().await, Err(AcquireError::Held { .. })));
    lock.extend_token(token, TTL).await.unwrap();
    assert!(matches!(lock.force_release(token).await, ReleaseOutcome::Released));
    drop(lock.try_acquire().await.unwrap());
}

/// Goal: a neighbour of this process does not wait for the ttl of a lock that another process released.
#[tokio::test(start_paused = true)]
async fn a_neighbour_hears_of_the_release_of_a_lock_that_may_outlive_its_process() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).outlives_process(true).acquire().await.unwrap();
    let waiting = {
        let lock = world.lock("a").wait_timeout(TTL / 2);
        tokio::spawn(async move { lock.acquire().await.is_ok() })
    };
    sleep(ms(500)).await;
    assert!(matches!(world.lock("a").force_release(guard.token()).await, ReleaseOutcome::Released));
    assert!(waiting.await.unwrap(), "well before the ttl");
    guard.detach();
}

/// Goal: a client that extends never gets a yes for time that is over, as after a pause of the process.
#[tokio::test(start_paused = true)]
async fn an_extension_whose_time_is_over_when_it_is_answered_is_a_loss() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    world.break_nodes(2, &Fault::Slow(ms(40)));
    // The asking machine sleeps while the nodes answer. Their clock is another.
    let clock = TestClock::start();
    let lock = world.builder_with_clock(clock.clone()).build().unwrap().named("a").unwrap();
    let token = guard.token();
    let extending = tokio::spawn(async move { lock.extend_token(token, TTL).await });
    sleep(ms(20)).await;
    clock.suspend(TTL);
    let answer = extending.await.unwrap();
    assert!(
        matches!(&answer, Err(ExtendError::Lost(lost)) if lost.reason == LossReason::Expired),
        "{answer:?}"
    );
}

/// The same for a guard: an observer that is slow, or a pause behind the last vote, may use the time up.
#[tokio::test(start_paused = true)]
async fn a_guard_whose_time_is_over_when_its_extension_is_answered_is_lost() {
    let world = World::of(3);
    let clock = TestClock::start();
    let sleeper = clock.clone();
    let builder = world.builder_with_clock(clock).observer(move |event: &Event| {
        if matches!(event, Event::Extended { .. }) {
            sleeper.suspend(TTL);
        }
    });
    let guard = builder.build().unwrap().named("a").unwrap().watchdog(false).acquire().await.unwrap();
    let answer = guard.extend().await;
    assert!(matches!(&answer, Err(ExtendError::Lost(_))), "{answer:?}");
}
