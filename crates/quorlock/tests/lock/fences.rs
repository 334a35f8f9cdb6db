//! Fences: unique, ordered, and cheap.

use crate::world::{World, end_of, ms};
use quorlock::{Clock, Fence, Holder, Locker, ReleaseOutcome};
use quorlock_testkit::{Fault, TestClock};
use std::time::{Duration, UNIX_EPOCH};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn fences_grow_whatever_the_clients_clocks_say() {
    let world = World::of(3);
    let (early, late) = (TestClock::start(), TestClock::start());
    early.jump_wall_millis(-2_000);
    late.jump_wall_millis(2_500);
    let lockers = [
        world.builder_with_clock(early).build().unwrap(),
        world.builder_with_clock(late).build().unwrap(),
        world.locker(),
    ];
    let mut last = Fence::NONE;
    for round in 0..30 {
        let guard = lockers[round % 3].named("a").unwrap().acquire().await.unwrap();
        assert!(guard.fence() > last, "{} after {last}", guard.fence());
        let seen = lockers[0].named("a").unwrap().inspect().await.unwrap();
        assert!(matches!(seen.holder, Holder::Owner { fence, .. } if fence == guard.fence()));
        last = guard.fence();
        assert!(matches!(guard.release().await, ReleaseOutcome::Released));
        sleep(ms(7)).await;
    }
    let stamps = world.nodes[0].verbs().iter().filter(|verb| **verb == "stamp").count();
    assert!((1..=8).contains(&stamps), "clients learn their lag instead of stamping each time: {stamps}");
}

/// Goal: one round trip in the normal case, two where our clock lags behind the last holder's, then one again.
#[tokio::test(start_paused = true)]
async fn a_client_whose_clock_lags_needs_one_stamp_and_then_none() {
    let world = World::of(5);
    let lagging = TestClock::start();
    lagging.jump_wall_millis(-3_000);
    let lagging = world.builder_with_clock(lagging).build().unwrap();
    let rounds = || {
        let verbs = world.nodes[0].verbs();
        ["acquire", "stamp"].map(|verb| verbs.iter().filter(|seen| **seen == verb).count())
    };
    let fast = world.locker();
    drop(fast.named("a").unwrap().acquire().await.unwrap());
    assert_eq!(rounds(), [1, 0]);
    sleep(ms(1)).await;
    drop(lagging.named("a").unwrap().acquire().await.unwrap());
    assert_eq!(rounds(), [2, 1]);
    for _ in 0..5 {
        sleep(ms(1)).await;
        drop(fast.named("a").unwrap().acquire().await.unwrap());
        sleep(ms(1)).await;
        drop(lagging.named("a").unwrap().acquire().await.unwrap());
    }
    assert_eq!(rounds(), [12, 1], "it has learnt its lag");
}

/// Fences stay near the wall clock: a client must not take the time of a round for a lag of its clock.
#[tokio::test(start_paused = true)]
async fn equal_clocks_learn_no_lead_from_slow_rounds() {
    let world = World::of(3);
    world.break_nodes(3, &Fault::Slow(ms(40)));
    let lockers: Vec<Locker> = (0..4).map(|_| world.locker()).collect();
    let mut tasks = Vec::new();
    for locker in &lockers {
        let lock = locker.named("a").unwrap().wait_timeout(Duration::from_secs(600));
        tasks.push(tokio::spawn(async move {
            let mut ahead = 0;
            for _ in 0..50 {
                let guard = lock.acquire().await.unwrap();
                ahead = ahead.max(guard.fence().get());
                sleep(ms(3)).await;
                let _ = guard.release().await;
            }
            ahead
        }));
    }
    let mut highest = 0;
    for task in tasks {
        highest = highest.max(end_of(task).await);
    }
    let wall = world.clock.wall_time().duration_since(UNIX_EPOCH).unwrap();
    let wall = u64::try_from(wall.as_micros()).unwrap();
    assert!(highest <= wall + 1_000, "fences run {} us ahead of every clock", highest - wall);
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
