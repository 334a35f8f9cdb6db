//! Details of the lock that only show on slow nodes or within one process.
#![allow(clippy::unwrap_used)]

mod common;

use common::{TTL, World};
use quorlock::node::Command;
use quorlock::{ExtendError, Held, Loss, Release};
use quorlock_testkit::{Fault, TestClock};
use std::time::Duration;
use tokio::time::{Instant, sleep};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Mutant: `Hold::lose` does not ring.
#[tokio::test(start_paused = true)]
async fn a_waiter_tries_at_once_when_its_neighbour_is_lost_early() {
    let world = World::of(3);
    let locker = world.locker();
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = locker.named("a").unwrap().wait(Duration::from_secs(60));
        async move { lock.acquire().await.map(drop) }
    });
    sleep(ms(100)).await;
    let _ = world.lock("a").force_release(guard.token()).await;
    assert_eq!(guard.lost().await.loss, Loss::Taken);
    let start = Instant::now();
    waiter.await.unwrap().unwrap();
    assert!(start.elapsed() < ms(50), "free for {:?}", start.elapsed());
}

/// Mutant: an extension under way is not cut off when the loss must be announced.
#[tokio::test(start_paused = true)]
async fn an_extension_under_way_does_not_delay_the_announcement() {
    let world = World::of(3);
    let builder = world.builder().ttl(ms(1_100)).node_timeout(ms(250)).loss_margin(ms(500));
    let guard = builder.build().unwrap().named("a").unwrap().acquire().await.unwrap();
    world.break_nodes(3, &Fault::Deaf);
    let start = Instant::now();
    guard.lost().await;
    // Validity 1087 ms, extension at 362 ms, its answers until 612 ms; the announcement is due at 587 ms.
    assert!(start.elapsed() <= ms(590), "{:?}", start.elapsed());
}

/// Mutant: the new deadline counts from the end of the round.
#[tokio::test(start_paused = true)]
async fn the_time_that_an_extension_takes_counts_against_the_lease() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    sleep(ms(1_000)).await;
    world.break_nodes(3, &Fault::Slow(ms(40)));
    let left = guard.extend().await.unwrap();
    assert!(left <= ms(9_898 - 40), "{left:?}");
}

/// Mutant: a top-up is sent after the release.
#[tokio::test(start_paused = true)]
async fn a_node_that_answers_gone_after_the_release_is_not_topped_up() {
    let world = World::of(3);
    world.nodes[0].set(Fault::Deaf);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    world.nodes[0].set(Fault::Slow(ms(30)));
    // A majority extends at once; the third will say "gone" in 30 ms, after the release.
    guard.extend().await.unwrap();
    assert!(matches!(guard.release().await, Release::Released));
    sleep(ms(100)).await;
    assert!(!world.nodes[0].verbs().contains(&"top_up"), "{:?}", world.nodes[0].verbs());
    world.nodes[0].set(Fault::None);
    assert_eq!(world.copies("a").await, 0);
}

/// Mutant: a top-up is sent for a lock that is over.
#[tokio::test(start_paused = true)]
async fn a_node_that_answers_gone_after_the_loss_is_not_topped_up() {
    let world = World::of(3);
    world.nodes[0].set(Fault::Deaf);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    world.nodes[0].set(Fault::Slow(ms(30)));
    guard.extend().await.unwrap();
    world.clock.suspend(2 * TTL);
    sleep(ms(100)).await;
    assert!(!world.nodes[0].verbs().contains(&"top_up"), "{:?}", world.nodes[0].verbs());
}

/// Mutant: the stamp goes to all nodes.
#[tokio::test(start_paused = true)]
async fn a_stamp_asks_the_voters_only() {
    let world = World::of(3);
    let ahead = TestClock::start();
    ahead.jump_wall_millis(60_000);
    drop(world.builder_with_clock(ahead).build().unwrap().named("a").unwrap().acquire().await.unwrap());
    world.nodes[2].set(Fault::Deaf);
    let before = world.nodes[2].verbs().len();
    let guard = world.lock("a").acquire().await.unwrap();
    assert!(world.nodes[0].verbs().contains(&"stamp"), "the counters were ahead");
    assert_eq!(world.nodes[2].verbs()[before..], ["acquire"], "it never voted, so it is not stamped");
    drop(guard);
}

/// Mutant: the poll is not bounded by what the holder has left.
#[tokio::test(start_paused = true)]
async fn a_waiter_polls_when_the_holder_runs_out_not_a_second_later() {
    for left in [7_130, 8_130, 9_130, 9_530, 9_830] {
        let world = World::of(1);
        std::mem::forget(world.lock("a").watchdog(false).acquire().await.unwrap());
        sleep(ms(left)).await;
        let start = Instant::now();
        let _guard = world.lock("a").wait(Duration::from_secs(20)).acquire().await.unwrap();
        let late = start.elapsed().saturating_sub(TTL - ms(left));
        assert!(late <= ms(5), "free for {late:?}");
    }
}

/// Mutant: a failed extension is tried again only after another third of the validity.
#[tokio::test(start_paused = true)]
async fn a_failed_extension_is_tried_again_soon() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    world.break_nodes(3, &Fault::Deaf);
    sleep(ms(8_000)).await;
    let tries = world.nodes[0].verbs().iter().filter(|verb| **verb == "extend").count();
    assert!(tries >= 4, "{tries} in half of the validity");
    world.break_nodes(3, &Fault::None);
    sleep(ms(1_400)).await;
    assert!(guard.is_held() && guard.remaining() > ms(8_000), "{:?}", guard.remaining());
}

/// Mutant of the adoption: an adopted lock must be proven by a majority, not assumed.
#[tokio::test(start_paused = true)]
async fn adopting_on_a_minority_is_no_lock() {
    let world = World::of(3);
    let handle = world.lock("a").acquire().await.unwrap().into_handle().await.unwrap();
    world.break_nodes(2, &Fault::Deaf);
    let adopted = world.locker().adopt(&handle).await;
    assert!(matches!(adopted, Err(ExtendError::NoQuorum { .. })), "{adopted:?}");
    let released = |command: &Command| matches!(command, Command::Release { .. });
    assert!(!world.nodes[2].received().iter().any(released), "a failed adoption deletes nothing");
}

/// A `Held` that outlives its guard cannot bring the lock back.
#[tokio::test(start_paused = true)]
async fn extending_after_the_release_brings_nothing_back() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    let held = Held::clone(&guard);
    let _ = guard.release().await;
    assert!(matches!(held.extend().await, Err(ExtendError::Lost(_))));
    sleep(ms(100)).await;
    assert_eq!(world.copies("a").await, 0);
}

/// Mutant: a waiter does not see that its neighbour has let go while the release is still under way.
#[tokio::test(start_paused = true)]
async fn a_waiter_does_not_wait_for_the_answers_to_its_neighbours_release() {
    let world = World::of(3);
    let locker = world.locker();
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = locker.named("a").unwrap();
        async move { lock.acquire().await.map(drop) }
    });
    sleep(ms(100)).await;
    world.break_nodes(3, &Fault::Slow(ms(30)));
    let start = Instant::now();
    let release = tokio::spawn(guard.release());
    waiter.await.unwrap().unwrap();
    assert!(start.elapsed() < ms(40), "one round trip, not {:?}", start.elapsed());
    assert!(matches!(release.await.unwrap(), Release::Released));
}

/// Mutant: waiting behind a neighbour has no limit.
#[tokio::test(start_paused = true)]
async fn the_wait_limit_is_kept_behind_a_neighbour() {
    let world = World::of(3);
    let locker = world.locker();
    let _guard = locker.named("a").unwrap().acquire().await.unwrap();
    let start = Instant::now();
    let first = locker.named("a").unwrap().wait(ms(300));
    let second = locker.named("a").unwrap().wait(ms(400));
    let both = async { tokio::join!(first.acquire(), second.acquire()) };
    let (first, second) = tokio::time::timeout(ms(1_000), both).await.unwrap();
    assert!(first.is_err() && second.is_err());
    assert!(start.elapsed() <= ms(400) + common::NODE_TIMEOUT, "{:?}", start.elapsed());
}

/// Mutant: only nodes heard before the majority are topped up.
#[tokio::test(start_paused = true)]
async fn a_node_that_says_gone_after_the_majority_is_topped_up_too() {
    let world = World::of(3);
    world.nodes[0].set(Fault::Deaf);
    let guard = world.lock("a").acquire().await.unwrap();
    world.nodes[0].set(Fault::Slow(ms(30)));
    sleep(TTL / 2).await;
    assert!(world.nodes[0].verbs().contains(&"top_up"));
    world.nodes[0].set(Fault::None);
    assert_eq!(world.copies("a").await, 3);
    drop(guard);
}

/// Mutant: the undo waits until the last node has been heard for the error.
#[tokio::test(start_paused = true)]
async fn the_undo_does_not_wait_for_silent_nodes() {
    let world = World::of(3);
    world.break_nodes(2, &Fault::Broken(quorlock::node::NodeError::Loading));
    world.nodes[2].set(Fault::Mute);
    let lock = world.lock("a");
    let attempt = tokio::spawn(async move { lock.try_acquire().await.map(drop) });
    sleep(ms(5)).await;
    assert_eq!(world.nodes[2].verbs(), ["acquire", "release"], "undone as soon as it is refused");
    assert!(attempt.await.unwrap().is_err());
}

/// Mutant: a raise also succeeds where the counter is equal. Two clients whose clocks show the same microsecond.
#[tokio::test(start_paused = true)]
async fn clients_with_the_same_clock_reading_get_different_fences() {
    let world = World::of(3);
    let mut fences = Vec::new();
    for _ in 0..10 {
        // Time is paused and nothing sleeps: every proposal is the same number.
        let guard = world.lock("a").acquire().await.unwrap();
        fences.push(guard.fence());
        let _ = guard.release().await;
    }
    assert!(fences.windows(2).all(|pair| pair[0] < pair[1]), "{fences:?}");
}
