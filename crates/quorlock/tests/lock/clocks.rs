//! Machines that sleep and clocks that jump.

use crate::world::{TTL, World, loss_of, ms};
use quorlock::{Fence, LeaseState, LossReason};
use quorlock_core::{Drift, LeaseTerms, Moment, Token, Ttl, Wall};
use quorlock_testkit::Fault;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn a_suspended_machine_ends_the_lease() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    sleep(ms(1_000)).await;
    world.clock.suspend(2 * TTL);
    assert!(!guard.is_held(), "seen at once, before any timer runs");
    let start = Instant::now();
    assert_eq!(loss_of(&guard.lease()).await.reason, LossReason::Suspended);
    assert!(start.elapsed() < ms(500));
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_jumps_ahead_makes_the_lock_unverified_until_a_majority_confirms() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    world.clock.jump_wall_millis(60_000);
    assert_eq!(guard.state(), LeaseState::Unverified);
    assert_eq!(guard.remaining(), Duration::ZERO);
    sleep(ms(500)).await;
    assert!(guard.is_held(), "confirmed by the watchdog");
}

/// A pause that only the wall clock shows: the old deadline was computed on a clock that stood still.
#[test]
fn a_confirmation_after_an_unseen_pause_does_not_keep_the_old_deadline() {
    let secs = Duration::from_secs;
    let ttl = |span| Ttl::new(secs(span), Drift::DEFAULT, ms(50), secs(60)).unwrap();
    let boot = |at| Moment::from_boot(secs(at));
    let wall = |at: u64| Wall::from_micros(1_700_000_000_000_000 + at * 1_000_000);
    let token = Token::from_random([1; 16]);
    // Granted for 30 s; after 1 s the virtual machine is paused for 20 s, which its boot clock does not count.
    let mut lease = LeaseTerms::new(token, Fence::new(1), ttl(30), None, boot(1_000), wall(0));
    assert_eq!(lease.state(boot(1_001), wall(21)), LeaseState::Unverified);
    // A majority confirms for 10 s. The nodes, which never shorten, have about 10 s left of either.
    lease.extend(ttl(10), (boot(1_001), wall(21)), boot(1_001)).unwrap();
    assert!(lease.deadline() <= boot(1_011), "the nodes forget it at 1011, we at {:?}", lease.deadline());
}

/// The same from outside: a long extension, an unseen pause, a short confirmation, silence.
#[tokio::test(start_paused = true)]
async fn two_holders_after_a_long_extension_and_an_unseen_pause() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    guard.extend_by(Duration::from_secs(30)).await.unwrap();
    // The machine is paused for 25 s: the nodes' clocks go on, our boot clock does not. `world.clock` is the
    // nodes' clock, so model it as: everybody else moves on by 25 s, and our deadline with them.
    let before = guard.remaining();
    world.clock.jump_wall_millis(25_000);
    assert_eq!(guard.state(), LeaseState::Unverified);
    sleep(ms(500)).await; // the watchdog confirms, for the ttl of 10 s
    assert!(guard.is_held());
    assert!(
        guard.remaining() <= TTL,
        "verified for 10 s, counted on for {:?} of {before:?}",
        guard.remaining()
    );
}

/// While unverified, code that only watches the loss signal must not go on past what is certain.
#[tokio::test(start_paused = true)]
async fn an_unverified_lock_that_nobody_confirms_is_announced_lost_by_the_jumped_clock() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    world.break_nodes(3, &Fault::Deaf);
    world.clock.jump_wall_millis(60_000);
    let start = Instant::now();
    let lost = loss_of(&guard.lease()).await;
    assert!(start.elapsed() < ms(1_000), "{lost} only after {:?}", start.elapsed());
}

/// A locker that several runtimes share (one per worker thread, say) outlives each of them.
#[test]
fn the_clock_is_watched_for_every_runtime_that_holds_a_lock() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let world = first.block_on(async { World::of(1) });
    let locker = world.locker();
    let _ended = first.block_on(async { locker.named("a").unwrap().acquire().await.unwrap() });
    let guard = second.block_on(async { locker.named("b").unwrap().acquire().await.unwrap() });
    drop(first);
    std::thread::sleep(ms(300));
    world.clock.suspend(2 * TTL);
    let lost = second.block_on(async { timeout(ms(1_000), guard.lost()).await });
    assert!(lost.is_ok(), "the machine slept for two ttls, and a second later nobody was told");
}

/// A wall clock that is set right (NTP) in the last stretch of the longest hold, on healthy nodes.
#[tokio::test(start_paused = true)]
async fn an_unverified_lock_is_confirmed_also_in_the_last_stretch_of_its_longest_hold() {
    let world = World::of(3);
    let lock = world.lock("a").max_hold(Duration::from_secs(9));
    let guard = lock.acquire().await.unwrap();
    world.clock.jump_wall_millis(2_000);
    assert_eq!(guard.state(), LeaseState::Unverified);
    sleep(ms(1_000)).await;
    assert!(guard.is_held(), "a healthy majority has it: {:?}", guard.state());
}
