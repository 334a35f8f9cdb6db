//! Letting a lock go.

use crate::world::{NODE_TIMEOUT, TTL, World, end_of, ms};
use quorlock::{Event, ReleaseOutcome};
use quorlock_testkit::Fault;
use tokio::time::{Instant, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_releases() {
    let world = World::of(5);
    drop(world.lock("a").acquire().await.unwrap());
    assert_eq!(world.copies("a").await, 0);
}

#[tokio::test(start_paused = true)]
async fn releasing_an_expired_lock_is_an_outcome_and_quick() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    sleep(2 * TTL).await;
    let start = Instant::now();
    let outcome = guard.release().await;
    assert!(matches!(outcome, ReleaseOutcome::AlreadyGone), "{outcome:?}");
    assert!(start.elapsed() < NODE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn releasing_without_a_quorum_is_unconfirmed_and_bounded() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    world.break_nodes(2, &Fault::Deaf);
    let start = Instant::now();
    let outcome = guard.release().await;
    assert!(matches!(&outcome, ReleaseOutcome::Unconfirmed { nodes } if nodes.len() == 3), "{outcome:?}");
    assert!(start.elapsed() < ms(600), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_a_node_missed_is_tried_again() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    world.break_nodes(2, &Fault::Deaf);
    let release = tokio::spawn(guard.release());
    sleep(ms(60)).await;
    world.break_nodes(2, &Fault::None);
    assert!(matches!(end_of(release).await, ReleaseOutcome::Released));
    assert_eq!(world.copies("a").await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_straggler_that_was_not_waited_for_keeps_nothing() {
    let world = World::of(3);
    world.nodes[2].set(Fault::Slow(ms(30)));
    let start = Instant::now();
    let guard = world.lock("a").acquire().await.unwrap();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    assert!(start.elapsed() < ms(30), "answered at the quorum");
    assert_eq!(world.copies("a").await, 0, "its release followed its acquire");
}

#[tokio::test(start_paused = true)]
async fn no_command_follows_a_release() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    sleep(TTL).await;
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    sleep(2 * TTL).await;
    for node in &world.nodes {
        assert_eq!(node.verbs().last(), Some(&"release"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_two_nodes_answered_is_not_unconfirmed() {
    let world = World::of(3);
    world.nodes[0].set(Fault::Deaf);
    let guard = world.lock("a").acquire().await.unwrap();
    world.nodes[0].set(Fault::None);
    world.nodes[2].set(Fault::Deaf);
    let start = Instant::now();
    // Node 1 never had it, node 2 frees it, node 3 is silent: free on a majority.
    let outcome = guard.release().await;
    assert!(matches!(outcome, ReleaseOutcome::Released), "{outcome} after {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_first_answer_was_lost_is_still_ours() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    world.break_nodes(2, &Fault::Mute);
    let release = tokio::spawn(guard.release());
    sleep(ms(60)).await;
    world.break_nodes(2, &Fault::None);
    let outcome = end_of(release).await;
    assert!(matches!(outcome, ReleaseOutcome::Released), "we released it, nobody else did: {outcome}");
}

/// S1: at most one client has time left on a name. A `Held` outlives its guard.
#[tokio::test(start_paused = true)]
async fn a_clone_of_held_has_no_time_left_once_the_guard_is_released() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    let stale = guard.lease();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    let next = world.lock("a").acquire().await.unwrap();
    assert!(next.is_held());
    assert!(
        !stale.is_held(),
        "two holders with time left: {:?} and {:?}",
        stale.remaining(),
        next.remaining()
    );
}

#[tokio::test(start_paused = true)]
async fn force_release_demands_the_current_token() {
    let world = World::of(3);
    let old = world.lock("a").acquire().await.unwrap();
    let old_token = old.token();
    drop(old);
    let guard = world.lock("a").acquire().await.unwrap();
    assert!(matches!(world.lock("a").force_release(old_token).await, ReleaseOutcome::AlreadyGone));
    assert!(guard.is_held() && world.copies("a").await == 3);
    assert!(matches!(world.lock("a").force_release(guard.token()).await, ReleaseOutcome::Released));
}

/// redis-py 3847: a release that is cancelled half-way is a release.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_dropped_half_way_reaches_every_node() {
    let world = World::of(5);
    world.break_nodes(5, &Fault::Slow(ms(20)));
    let guard = world.lock("a").acquire().await.unwrap();
    assert!(timeout(ms(1), guard.release()).await.is_err(), "no node has answered");
    sleep(ms(100)).await;
    assert_eq!(world.copies("a").await, 0);
    let released = |outcome: &'static str| {
        world.count_events(
            move |event| matches!(event, Event::Released { outcome: kind, .. } if kind.kind() == outcome),
        )
    };
    assert_eq!((released("dropped"), released("released")), (1, 0), "the hold ends once for its observers");
}

/// Goal: nodes that do not answer a release are asked three times in all, and those that did are left alone.
#[tokio::test(start_paused = true)]
async fn only_silent_nodes_are_asked_to_release_again_and_three_times_at_most() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    world.break_nodes(2, &Fault::Deaf);
    assert!(matches!(guard.release().await, ReleaseOutcome::Unconfirmed { .. }));
    let asked = |node: usize| world.nodes[node].verbs().iter().filter(|verb| **verb == "release").count();
    assert_eq!([asked(0), asked(1), asked(2)], [3, 3, 1]);
}

/// Goal: a forced release leaves a trace, and an ordinary one by token does not look like one.
#[tokio::test(start_paused = true)]
async fn a_forced_release_is_an_event_even_if_its_caller_hangs_up() {
    let world = World::of(3);
    let forced = |wanted: &'static str| {
        world.count_events(
            move |event| matches!(event, Event::ForceReleased { outcome, .. } if outcome.kind() == wanted),
        )
    };
    let guard = world.lock("a").acquire().await.unwrap();
    let token = guard.token();
    assert!(matches!(world.lock("a").force_release(token).await, ReleaseOutcome::Released));
    assert!(matches!(world.lock("a").force_release(token).await, ReleaseOutcome::AlreadyGone));
    assert_eq!((forced("released"), forced("already_gone"), forced("dropped")), (1, 1, 0));
    let own = world.lock("b").acquire().await.unwrap();
    assert!(matches!(world.lock("b").release_token(own.token()).await, ReleaseOutcome::Released));
    world.break_nodes(3, &Fault::Slow(ms(20)));
    assert!(timeout(ms(5), world.lock("a").force_release(token)).await.is_err());
    assert_eq!((forced("released"), forced("already_gone"), forced("dropped")), (1, 1, 1));
}
