//! The scope, the look and the handle.

use crate::world::{TTL, World, ms};
use quorlock::node::Command;
use quorlock::{AcquireError, Event, ExtendError, LockHandle, Locker, ReleaseOutcome, RunError};
use quorlock_testkit::Fault;
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn run_returns_what_the_work_returns_and_releases() {
    let world = World::of(3);
    let lock = world.lock("a");
    let doubled = lock.run(|held| async move { held.fence().get() * 2 }).await.unwrap();
    assert!(doubled > 0);
    let own_error = lock.run(|_| async { Err::<(), _>("the work's own error") }).await.unwrap();
    assert_eq!(own_error, Err("the work's own error"));
    assert_eq!(world.copies("a").await, 0);
}

#[tokio::test(start_paused = true)]
async fn run_never_hides_the_works_error_behind_a_failed_release() {
    let world = World::of(3);
    let result = world
        .lock("a")
        .run(|_| async {
            world.break_nodes(3, &Fault::Deaf);
            Err::<(), _>("disk full")
        })
        .await;
    assert_eq!(result.unwrap(), Err("disk full"));
}

#[tokio::test(start_paused = true)]
async fn run_cancels_the_work_before_the_deadline_when_the_lock_is_lost() {
    let world = World::of(3);
    let start = Instant::now();
    let result = world
        .lock("a")
        .run(|_| async {
            world.break_nodes(3, &Fault::Deaf);
            sleep(Duration::from_secs(3_600)).await;
        })
        .await;
    assert!(matches!(result, Err(RunError::Lost(_))), "{result:?}");
    assert!(start.elapsed() < TTL + ms(500), "{:?}", start.elapsed());
}

/// A pause of the whole process ends past the deadline, and the work is woken before any timer.
#[tokio::test(start_paused = true)]
async fn run_does_not_resume_the_work_after_the_deadline() {
    let world = World::of(3);
    let result = world
        .lock("a")
        .run(|_| async {
            world.clock.suspend(TTL);
            tokio::task::yield_now().await;
            "done"
        })
        .await;
    assert!(matches!(result, Err(RunError::Lost(_))), "{result:?}");
    assert_eq!(world.copies("a").await, 0);
}

/// The same through `run`, whose work gets a `Held` by value and may give it to a task.
#[tokio::test(start_paused = true)]
async fn a_task_left_behind_by_run_sees_that_the_lock_is_gone() {
    let world = World::of(3);
    let left_behind = world.lock("a").run(|held| async move { held }).await.unwrap();
    assert!(!left_behind.is_held(), "{left_behind:?}");
}

#[tokio::test(start_paused = true)]
async fn an_inspection_changes_nothing_and_tells_per_node() {
    let world = World::of(3);
    let free = world.lock("a").inspect().await.unwrap();
    assert!(!free.is_held() && free.fence.is_none() && free.nodes.len() == 3);
    let guard = world.lock("a").acquire().await.unwrap();
    world.nodes[2].set(Fault::Deaf);
    let seen = world.lock("a").inspect().await.unwrap();
    assert_eq!((seen.votes, seen.fence), (2, Some(guard.fence())));
    assert!(seen.left.unwrap() <= TTL && seen.nodes[2].view.is_err());
    world.nodes[1].set(Fault::Deaf);
    let error = world.lock("a").inspect().await.unwrap_err();
    assert!(error.to_string().contains("node2: no answer within 50ms"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_can_move_to_another_process_as_text() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    let fence = guard.fence();
    let text = serde_json::to_string(&guard.into_handle().await.unwrap()).unwrap();
    assert_eq!(world.copies("a").await, 3, "given away, not released");

    let handle: LockHandle = serde_json::from_str(&text).unwrap();
    let adopted = world.locker().adopt(&handle).await.unwrap();
    assert_eq!(adopted.fence(), fence);
    sleep(3 * TTL).await;
    assert!(adopted.is_held(), "kept alive by its new owner");
    assert!(matches!(adopted.release().await, ReleaseOutcome::Released));
    assert!(matches!(world.locker().adopt(&handle).await, Err(ExtendError::Lost(_))), "gone is gone");
}

/// The bound on the whole hold must not start anew with every change of hands.
#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_not_given_away() {
    let world = World::of(3);
    let lock = world.lock("a").max_hold(ms(1_000));
    let guard = lock.acquire().await.unwrap();
    world.nodes[2].set(Fault::Slow(ms(45)));
    sleep(ms(770)).await;
    // The longest hold ends while the last node is heard.
    let handle = guard.into_handle().await;
    assert!(handle.is_err() || world.count_events(|event| matches!(event, Event::Lost { .. })) == 0);
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

/// What an adoption did not prove to be held it must not give to any node: adopted again and again, a lock that was over
/// long ago would come back, below the fences of those who had it since.
#[tokio::test(start_paused = true)]
async fn a_failed_adoption_brings_no_lock_back() {
    let world = World::of(3);
    let handle = world.lock("a").acquire().await.unwrap().into_handle().await.unwrap();
    sleep(2 * TTL).await;
    for deaf in [[1, 2], [0, 2], [0, 1]] {
        deaf.into_iter().for_each(|node| world.nodes[node].set(Fault::Deaf));
        let adopted = world.locker().adopt(&handle).await;
        assert!(matches!(adopted, Err(ExtendError::NoQuorum { .. })), "{adopted:?}");
        deaf.into_iter().for_each(|node| world.nodes[node].set(Fault::None));
        assert_eq!(world.copies("a").await, 0);
    }
}

/// Goal: what users move between threads can be moved.
#[test]
fn handles_are_send_and_sync() {
    fn check<T: Send + Sync + 'static>() {}
    fn check_future<T: Send>(_: &T) {}
    check::<Locker>();
    check::<quorlock::Lock>();
    check::<quorlock::Guard>();
    check::<quorlock::Lease>();
    check::<quorlock::blocking::Guard>();
    check::<AcquireError>();
    let lock = Locker::builder().nodes(["memory:"]).build().unwrap().named("a").unwrap();
    check_future(&lock.acquire());
    check_future(&lock.run(|_| async {}));
}

/// rslock: work that is cancelled as the lock is lost must not leave it on the nodes that can be reached.
#[tokio::test(start_paused = true)]
async fn run_releases_what_is_left_of_a_lost_lock() {
    let world = World::of(3);
    let result = world
        .lock("a")
        .run(|_| async {
            world.break_nodes(2, &Fault::Deaf);
            sleep(Duration::from_secs(3_600)).await;
        })
        .await;
    assert!(matches!(result, Err(RunError::Lost(_))), "{result:?}");
    assert_eq!(world.nodes[2].verbs().last(), Some(&"release"));
}
