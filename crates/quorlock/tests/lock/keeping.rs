//! Keeping a lock alive: extensions and repairs.

use crate::world::{NODE_TIMEOUT, TTL, World, ms};
use quorlock::node::NodeError;
use quorlock::{Event, ExtendError, ReleaseOutcome};
use quorlock_testkit::Fault;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn the_watchdog_keeps_a_lock_far_beyond_its_ttl() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    sleep(10 * TTL).await;
    assert!(guard.is_held());
    assert!(guard.remaining() > TTL / 2);
    let extensions = world.count_events(|event| matches!(event, Event::Extended { .. }));
    assert!((25..=40).contains(&extensions), "a third of the validity apart: {extensions}");
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
}

#[tokio::test(start_paused = true)]
async fn a_failed_extend_never_deletes_and_the_old_deadline_stands() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    sleep(ms(3_000)).await;
    world.break_nodes(2, &Fault::Deaf);
    let before = guard.remaining();
    let failed = guard.extend().await;
    assert!(matches!(failed, Err(ExtendError::NoQuorum { answered: 1, .. })), "{failed:?}");
    assert!(guard.is_held() && guard.remaining() <= before, "not lost, not longer");
    assert!(!world.nodes[2].verbs().contains(&"release"));
    world.break_nodes(2, &Fault::None);
    assert_eq!(world.copies("a").await, 3);
    assert!(guard.extend().await.unwrap() > before, "it can be tried again");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_forgot_is_repaired_while_the_lock_is_held() {
    let world = World::of(3);
    world.nodes[0].set(Fault::Deaf);
    let guard = world.lock("a").acquire().await.unwrap();
    world.nodes[0].set(Fault::None);
    assert_eq!(world.copies("a").await, 2);
    sleep(TTL / 2).await;
    assert_eq!(world.copies("a").await, 3);
    assert_eq!(world.nodes[0].verbs().iter().filter(|verb| **verb == "repair").count(), 1);
    drop(guard);
    assert_eq!(world.copies("a").await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_extension_needs_a_majority_of_the_configured_nodes_not_of_those_that_granted() {
    let world = World::of(5);
    world.break_nodes(2, &Fault::Deaf);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    world.break_nodes(3, &Fault::Deaf);
    let start = Instant::now();
    let two_of_three = guard.extend().await;
    assert!(matches!(two_of_three, Err(ExtendError::NoQuorum { answered: 2, .. })), "{two_of_three:?}");
    assert!(start.elapsed() <= NODE_TIMEOUT + ms(1), "bounded: {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_short_ttl_is_kept_alive_like_a_long_one() {
    let world = World::of(3);
    let guard = world.lock("a").ttl(ms(220)).acquire().await.unwrap();
    sleep(ms(5_000)).await;
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_while_an_extension_is_under_way() {
    let world = World::of(3);
    let lock = world.lock("a").ttl(ms(1_000));
    let steps = lock.run(|held| async move {
        let mut steps = 0;
        while steps < 300 && held.is_held() {
            sleep(ms(10)).await;
            steps += 1;
        }
        steps
    });
    world.break_nodes(1, &Fault::Slow(ms(45)));
    assert_eq!(steps.await.unwrap(), 300, "three ttls of work, not one step missed");
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_takes_nothing_with_it() {
    let world = World::of(3);
    let builder = world.builder().observer(|_: &Event| panic!("a broken observer"));
    let guard = builder.build().unwrap().named("a").unwrap().acquire().await.unwrap();
    sleep(3 * TTL).await;
    assert!(guard.is_held(), "the watchdog survived it");
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
}

/// Held on nodes 2 and 3; node 1 comes back, node 3 dies: a healthy majority, a valid lease, ten seconds of time.
#[tokio::test(start_paused = true)]
async fn a_failed_round_also_tops_up_so_that_the_next_one_can_succeed() {
    let world = World::of(3);
    world.nodes[0].set(Fault::Deaf);
    let guard = world.lock("a").acquire().await.unwrap();
    world.nodes[0].set(Fault::None);
    world.nodes[2].set(Fault::Deaf);
    sleep(2 * TTL).await;
    assert!(guard.is_held(), "lost with two of three nodes healthy: {:?}", guard.state());
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

/// Mutant: a repair is sent after the release.
#[tokio::test(start_paused = true)]
async fn a_node_that_answers_gone_after_the_release_is_not_repaired() {
    let world = World::of(3);
    world.nodes[0].set(Fault::Deaf);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    world.nodes[0].set(Fault::Slow(ms(30)));
    // A majority extends at once; the third will say "gone" in 30 ms, after the release.
    guard.extend().await.unwrap();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    sleep(ms(100)).await;
    assert!(!world.nodes[0].verbs().contains(&"repair"), "{:?}", world.nodes[0].verbs());
    world.nodes[0].set(Fault::None);
    assert_eq!(world.copies("a").await, 0);
}

/// Mutant: a repair is sent for a lock that is over.
#[tokio::test(start_paused = true)]
async fn a_node_that_answers_gone_after_the_loss_is_not_repaired() {
    let world = World::of(3);
    world.nodes[0].set(Fault::Deaf);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    world.nodes[0].set(Fault::Slow(ms(30)));
    guard.extend().await.unwrap();
    world.clock.suspend(2 * TTL);
    sleep(ms(100)).await;
    assert!(!world.nodes[0].verbs().contains(&"repair"), "{:?}", world.nodes[0].verbs());
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

/// A `Held` that outlives its guard cannot bring the lock back.
#[tokio::test(start_paused = true)]
async fn extending_after_the_release_brings_nothing_back() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    let held = guard.lease();
    let _ = guard.release().await;
    assert!(matches!(held.extend().await, Err(ExtendError::Lost(_))));
    sleep(ms(100)).await;
    assert_eq!(world.copies("a").await, 0);
}

/// Mutant: only nodes heard before the majority are repaired.
#[tokio::test(start_paused = true)]
async fn a_node_that_answers_gone_after_the_majority_is_repaired_too() {
    let world = World::of(3);
    world.nodes[0].set(Fault::Deaf);
    let guard = world.lock("a").acquire().await.unwrap();
    world.nodes[0].set(Fault::Slow(ms(30)));
    sleep(TTL / 2).await;
    assert!(world.nodes[0].verbs().contains(&"repair"));
    world.nodes[0].set(Fault::None);
    assert_eq!(world.copies("a").await, 3);
    drop(guard);
}

/// Goal: observers see extensions that failed, nodes that failed late, and repairs; a holder sees how many nodes agreed.
#[tokio::test(start_paused = true)]
async fn what_becomes_of_an_extension_is_seen() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    world.break_nodes(2, &Fault::Broken(NodeError::Loading));
    assert!(guard.extend().await.is_err());
    let failed =
        |event: &Event| matches!(event, Event::ExtendFailed { votes: 1, left, .. } if !left.is_zero());
    assert_eq!(world.count_events(failed), 1);
    world.break_nodes(2, &Fault::None);
    world.nodes[0].set(Fault::Broken(NodeError::Loading));
    guard.extend().await.unwrap();
    assert_eq!(guard.votes(), 2, "one node failed");
}

#[tokio::test(start_paused = true)]
async fn a_repair_and_a_node_that_fails_late_are_seen() {
    let world = World::of(3);
    world.nodes[0].set(Fault::Deaf);
    let guard = world.lock("a").acquire().await.unwrap();
    world.nodes[0].set(Fault::None);
    sleep(TTL / 2).await;
    let repaired = |event: &Event| matches!(event, Event::Repaired { node, .. } if **node == *"node1");
    assert_eq!(world.count_events(repaired), 1);
    // It answers neither the vote nor anything else, and a majority does not wait for it.
    world.nodes[2].set(Fault::Deaf);
    let failed = |event: &Event| matches!(event, Event::NodeFailed { node, .. } if **node == *"node3");
    let before = world.count_events(failed);
    sleep(TTL / 2).await;
    assert!(world.count_events(failed) > before, "a node that stays silent is seen");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn an_adopted_lock_says_how_many_nodes_agreed() {
    let world = World::of(3);
    let handle = world.lock("a").acquire().await.unwrap().into_handle().await.unwrap();
    let adopted = world.locker().adopt(&handle).await.unwrap();
    assert_eq!(adopted.votes(), 2);
}
