//! The first moments of a hold, before it has a watchdog of its own.

use crate::world::{TTL, World, ms};
use quorlock::{LeaseState, Locker, LossReason};
use quorlock_testkit::until_blocking;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn only_a_hold_that_stays_gets_a_task_of_its_own() {
    let world = World::of(3);
    let lock = world.lock("a");
    drop(lock.acquire().await.unwrap());
    let before = Handle::current().metrics().num_alive_tasks();
    for _ in 0..100 {
        drop(lock.acquire().await.unwrap());
    }
    let after = Handle::current().metrics().num_alive_tasks();
    assert!(after <= before + 5, "{before} tasks became {after}");

    let mut guards = Vec::new();
    for number in 0..100 {
        guards.push(world.lock(&format!("b{number}")).acquire().await.unwrap());
    }
    sleep(10 * TTL).await;
    assert!(guards.iter().all(|guard| guard.is_held()), "kept beyond the ttl");
    drop(guards);
    sleep(ms(500)).await;
    let at_last = Handle::current().metrics().num_alive_tasks();
    assert!(at_last <= before + 5, "{before} tasks became {at_last}");
}

#[tokio::test(start_paused = true)]
async fn a_sleep_of_the_machine_right_after_the_grant_is_seen() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    sleep(ms(5)).await;
    world.clock.suspend(2 * TTL);
    assert!(!guard.is_held());
    sleep(ms(300)).await;
    assert!(guard.lost_token().is_cancelled());
    assert_eq!(guard.state(), LeaseState::Lost(LossReason::Suspended));
}

#[test]
fn a_runtime_that_stands_still_does_not_keep_the_locks_of_another_from_being_watched() {
    let runtime = || -> Runtime { Builder::new_current_thread().enable_all().build().unwrap() };
    let locker = Locker::builder().nodes(["memory:"]).ttl(Duration::from_millis(600)).build().unwrap();
    let (still, busy) = (runtime(), runtime());
    let forgotten = still.block_on(async { locker.named("a").unwrap().acquire().await.unwrap() });
    busy.block_on(async {
        let guard = locker.named("b").unwrap().acquire().await.unwrap();
        sleep(Duration::from_millis(1_500)).await;
        assert!(guard.is_held(), "{:?}", guard.state());
    });
    assert!(!forgotten.is_held(), "nobody drove its runtime");
}

/// Goal: a runtime that ends takes the watchdogs with it, and every hold says so at once, however old it is.
#[test]
fn a_runtime_that_ends_announces_the_loss_of_young_and_old_holds() {
    let kinds = [Builder::new_current_thread, || {
        let mut kind = Builder::new_multi_thread();
        kind.worker_threads(1);
        kind
    }];
    for (kind, age) in kinds.iter().flat_map(|kind| [(kind, 0), (kind, 200)]) {
        let locker = Locker::builder().nodes(["memory:"]).ttl(Duration::from_secs(20)).build().unwrap();
        let runtime = kind().enable_all().build().unwrap();
        let guard = runtime.block_on(async {
            let guard = locker.named("a").unwrap().acquire().await.unwrap();
            sleep(ms(age)).await;
            guard
        });
        let lost = guard.lost_token();
        assert!(!lost.is_cancelled() && guard.is_held(), "{age} ms");
        drop(runtime);
        until_blocking("the loss is announced", Duration::from_secs(9), || lost.is_cancelled());
        assert_eq!(guard.state(), LeaseState::Lost(LossReason::Unwatched), "{age} ms");
        assert!(guard.lost_token().is_cancelled(), "for who asks later, too");
    }
}
