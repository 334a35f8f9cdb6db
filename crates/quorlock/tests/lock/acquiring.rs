//! Taking a lock: votes, refusals and what stays of a failed attempt.

use crate::world::{NODE_TIMEOUT, TTL, World, end_of, ms};
use quorlock::node::{MemoryNode, Node, NodeError};
use quorlock::{AcquireError, Event, Holder, Locker, ReleaseOutcome};
use quorlock_testkit::{Fault, TestClock};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn a_lock_excludes_and_says_who_has_it() {
    let world = World::of(3);
    let guard = world.lock("invoice:42").owner("billing@web1").reason("billing run").acquire().await.unwrap();
    assert!(guard.remaining() > ms(9_800) && guard.remaining() <= ms(9_898));

    match world.lock("invoice:42").try_acquire().await {
        Err(AcquireError::Held { holder: Holder::Owner { token, fence, owner }, left, .. }) => {
            assert_eq!(token, guard.token());
            assert_eq!(fence, guard.fence());
            assert_eq!((owner.who.as_str(), owner.pid), ("billing@web1", std::process::id()));
            assert_eq!(owner.reason.as_deref(), Some("billing run"));
            assert!(left.unwrap() <= TTL);
        }
        other => panic!("{other:?}"),
    }
    assert!(world.lock("invoice:43").try_acquire().await.is_ok(), "another name is free");
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    assert_eq!(world.copies("invoice:42").await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_even_split_is_refused_and_undone() {
    let world = World::of(2);
    world.nodes[1].set(Fault::Deaf);
    let half = world.lock("a").try_acquire().await;
    assert!(matches!(half, Err(AcquireError::NoQuorum { answered: 1, .. })), "{half:?}");
    world.nodes[1].set(Fault::None);
    assert_eq!(world.copies("a").await, 0);
}

#[tokio::test(start_paused = true)]
async fn one_silent_node_costs_nothing() {
    let world = World::of(3);
    world.break_nodes(1, &Fault::Deaf);
    let start = Instant::now();
    let guard = world.lock("a").acquire().await.unwrap();
    assert!(start.elapsed() < NODE_TIMEOUT, "{:?}", start.elapsed());
    let start = Instant::now();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    assert!(start.elapsed() < NODE_TIMEOUT, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn no_quorum_names_each_node_and_its_cause() {
    let world = World::of(3);
    world.nodes[0].set(Fault::Broken(NodeError::Loading));
    world.nodes[1].set(Fault::Deaf);
    let refused = world.lock("a").try_acquire().await.unwrap_err();
    let text = refused.to_string();
    assert_eq!(
        text,
        "lock `a` needs 2 of 3 nodes but only 1 could vote: node1: it is still loading its data; \
         node2: no answer within 50ms; node3 agreed"
    );
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded_too() {
    let world = World::of(3);
    let _guard = world.lock("a").acquire().await.unwrap();
    let other = world.lock("a").max_attempts(3).wait_timeout(Duration::from_secs(9));
    assert!(matches!(other.acquire().await, Err(AcquireError::Held { .. })));
    let refusals = world.count_events(|event| matches!(event, Event::Refused { .. }));
    assert_eq!(refusals, 3);
}

#[tokio::test(start_paused = true)]
async fn attempts_that_found_no_quorum_are_counted_too() {
    let world = World::of(3);
    world.break_nodes(2, &Fault::Broken(NodeError::Loading));
    let refused = world.lock("a").max_attempts(3).wait_timeout(Duration::from_secs(9)).acquire().await;
    assert!(matches!(refused, Err(AcquireError::NoQuorum { .. })), "{refused:?}");
    assert_eq!(world.count_events(|event| matches!(event, Event::Refused { .. })), 3);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_denied_its_vote_could_vote() {
    let world = World::of(3);
    let alone = Locker::builder().ttl(TTL).clock(world.clock.clone()).node(world.nodes[0].clone());
    let _guard = alone.build().unwrap().named("a").unwrap().acquire().await.unwrap();
    world.nodes[1].set(Fault::Broken(NodeError::Loading));
    world.nodes[2].set(Fault::Broken(NodeError::Loading));
    let refused = world.lock("a").try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::NoQuorum { answered: 1, .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn one_attempt_does_not_wait_for_a_neighbour() {
    let locker = World::of(3).locker();
    let _guard = locker.named("a").unwrap().acquire().await.unwrap();
    let start = Instant::now();
    let refused = locker.named("a").unwrap().max_attempts(1).acquire().await;
    assert!(matches!(refused, Err(AcquireError::Held { .. })), "{refused:?}");
    assert!(start.elapsed() < ms(2), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn partial_votes_are_released_before_the_retry_on_every_node_that_was_asked() {
    let world = World::of(3);
    world.break_nodes(2, &Fault::Mute);
    let lock = world.lock("a").wait_timeout(ms(200));
    assert!(lock.acquire().await.is_err());
    for node in &world.nodes {
        let verbs: Vec<_> = node.verbs().into_iter().filter(|verb| *verb != "inspect").collect();
        assert!(verbs.len() >= 4, "{verbs:?}");
        for pair in verbs.chunks(2) {
            assert_eq!(pair, ["acquire", "release"], "each attempt is undone before the next");
        }
    }
    world.break_nodes(2, &Fault::None);
    assert_eq!(world.copies("a").await, 0, "mute nodes had set it and got the undo, too");
}

#[tokio::test(start_paused = true)]
async fn every_attempt_has_a_token_of_its_own_so_a_late_undo_cannot_hurt_the_next() {
    let world = World::of(3);
    world.break_nodes(2, &Fault::Deaf);
    let _ = world.lock("a").wait_timeout(ms(500)).acquire().await;
    let mut tokens: Vec<String> = Vec::new();
    for command in world.nodes[0].received() {
        if let quorlock::node::Command::Acquire(acquire) = command {
            tokens.push(acquire.token.to_string());
        }
    }
    let attempts = tokens.len();
    tokens.sort();
    tokens.dedup();
    assert!(attempts > 1 && tokens.len() == attempts);

    // An undo of the first attempt that arrives only now finds another token and does nothing.
    world.break_nodes(2, &Fault::None);
    let guard = world.lock("a").acquire().await.unwrap();
    let late = world.lock("a").force_release(tokens[0].parse().unwrap()).await;
    assert!(matches!(late, ReleaseOutcome::AlreadyGone), "{late:?}");
    assert_eq!(world.copies("a").await, 3);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_acquire_leaves_nothing() {
    let world = World::of(3);
    world.break_nodes(2, &Fault::Mute);
    let lock = world.lock("a");
    assert!(timeout(ms(10), lock.acquire()).await.is_err(), "dropped in the middle of its first attempt");
    world.break_nodes(2, &Fault::None);
    assert_eq!(world.copies("a").await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_majority_that_agrees_after_the_deadline_grants_nothing() {
    let world = World::of(3);
    world.break_nodes(3, &Fault::Slow(ms(45)));
    // The clock of the machine runs on while it sleeps, timers do not.
    let clock = world.clock.clone();
    tokio::spawn(async move {
        sleep(ms(20)).await;
        clock.suspend(2 * TTL);
    });
    let refused = world.lock("a").try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::TooSlow { .. })), "{refused:?}");
    world.break_nodes(3, &Fault::None);
    assert_eq!(world.copies("a").await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_error_beside_a_quorum_is_not_an_error() {
    let world = World::of(3);
    world.break_nodes(1, &Fault::Broken(NodeError::Busy));
    let guard = world.lock("a").acquire().await.unwrap();
    assert!(guard.extend().await.is_ok());
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_is_not_followed_by_a_sleep() {
    let world = World::of(3);
    let _guard = world.lock("a").acquire().await.unwrap();
    let start = Instant::now();
    assert!(world.lock("a").max_attempts(1).acquire().await.is_err());
    assert!(start.elapsed() < ms(2), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn ordinary_contention_is_no_trouble_with_nodes() {
    let world = World::of(3);
    let _guard = world.lock("a").acquire().await.unwrap();
    assert!(world.lock("a").wait_timeout(ms(500)).acquire().await.is_err());
    assert_eq!(world.count_events(|event| matches!(event, Event::NodeFailed { .. })), 0);
}

#[tokio::test(start_paused = true)]
async fn the_time_that_an_attempt_takes_counts_against_the_lease() {
    let world = World::of(3);
    world.break_nodes(3, &Fault::Slow(ms(40)));
    let guard = world.lock("a").acquire().await.unwrap();
    assert!(guard.remaining() <= ms(9_898 - 40), "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_outlasts_the_longest_hold_grants_nothing() {
    let world = World::of(3);
    world.break_nodes(3, &Fault::Slow(ms(40)));
    let late = world.lock("a").max_hold(ms(20)).try_acquire().await;
    assert!(!late.as_ref().is_ok_and(|guard| !guard.is_held()), "a guard that never held: {late:?}");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_die_between_vote_and_stamp_are_no_quorum_at_once() {
    let world = World::of(3);
    // Counters far ahead of our clock, so that a stamp is needed.
    let ahead = TestClock::start();
    ahead.jump_wall_millis(60_000);
    drop(world.builder_with_clock(ahead).build().unwrap().named("a").unwrap().acquire().await.unwrap());
    world.break_nodes(3, &Fault::Slow(ms(10)));
    let lock = world.lock("a");
    let attempt = tokio::spawn(async move { lock.try_acquire().await.map(drop) });
    sleep(ms(5)).await;
    world.break_nodes(3, &Fault::Deaf);
    let refused = end_of(attempt).await;
    assert!(matches!(refused, Err(AcquireError::NoQuorum { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn one_node_of_ones_own_making_given_twice_is_refused() {
    let node: Arc<dyn Node> = Arc::new(MemoryNode::new("one", Arc::new(quorlock::SystemClock)));
    let built = Locker::builder().node(node.clone()).node(node.clone()).node(node).build();
    assert!(matches!(built, Err(quorlock::ConfigError::SameNode { .. })), "one server cannot be three nodes");
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
    assert!(end_of(attempt).await.is_err());
}

/// S1: the deadline is looked at again just before the guard is given out.
#[tokio::test(start_paused = true)]
async fn a_pause_after_the_votes_gives_no_guard() {
    let world = World::of(3);
    let clock = world.clock.clone();
    let slow = move |event: &Event| {
        if matches!(event, Event::Acquired { .. }) {
            clock.suspend(TTL);
        }
    };
    let lock = world.builder().observer(slow).build().unwrap().named("a").unwrap();
    let refused = lock.acquire().await;
    assert!(matches!(&refused, Err(AcquireError::TooSlow { took, .. }) if *took >= TTL), "{refused:?}");
    assert_eq!(world.copies("a").await, 0);
    let (taken, ended) = (
        |event: &Event| matches!(event, Event::Acquired { .. }),
        |event: &Event| matches!(event, Event::Released { .. }),
    );
    assert_eq!(
        (world.count_events(taken), world.count_events(ended)),
        (1, 1),
        "each hold that was told of ends"
    );
}

/// Goal: the error says how many nodes could vote, those that refused included.
#[tokio::test(start_paused = true)]
async fn nodes_that_refused_count_as_answers_where_too_few_could_vote() {
    let world = World::of(5);
    let _guard = world.lock("a").acquire().await.unwrap();
    world.break_nodes(3, &Fault::Broken(NodeError::Loading));
    let refused = world.lock("a").try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::NoQuorum { answered: 2, .. })), "{refused:?}");
}
