//! What a user of the lock relies on, on nodes that can be broken and with time that is paused.
#![allow(clippy::unwrap_used)]

mod common;

use common::{NODE_TIMEOUT, TTL, World};
use quorlock::node::NodeError;
use quorlock::{
    AcquireError, CancellationToken, Event, ExtendError, Fence, Handle, Holder, Locker, Loss, Release,
    RunError, Standing,
};
use quorlock_testkit::{Fault, TestClock};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test(start_paused = true)]
async fn a_lock_excludes_and_says_who_has_it() {
    let world = World::of(3);
    let guard = world.lock("invoice:42").reason("billing run").acquire().await.unwrap();
    assert!(guard.remaining() > ms(9_800) && guard.remaining() <= ms(9_898));

    match world.lock("invoice:42").try_acquire().await {
        Err(AcquireError::Held { holder: Holder::Owner { token, fence, owner }, left, .. }) => {
            assert_eq!(token, guard.token());
            assert_eq!(fence.get(), guard.fence());
            assert_eq!(owner.pid, std::process::id());
            assert_eq!(owner.reason.as_deref(), Some("billing run"));
            assert!(left.unwrap() <= TTL);
        }
        other => panic!("{other:?}"),
    }
    assert!(world.lock("invoice:43").try_acquire().await.is_ok(), "another name is free");
    assert!(matches!(guard.release().await, Release::Released));
    assert_eq!(world.copies("invoice:42").await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_releases() {
    let world = World::of(5);
    drop(world.lock("a").acquire().await.unwrap());
    assert_eq!(world.copies("a").await, 0);
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
    assert!(matches!(guard.release().await, Release::Released));
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
async fn the_wait_limit_is_kept_whatever_the_nodes_do() {
    for fault in [Fault::Deaf, Fault::Mute, Fault::Slow(ms(500)), Fault::Slow(ms(49))] {
        let world = World::of(3);
        world.break_nodes(2, &fault);
        let lock = world.lock("a").wait(ms(300));
        let start = Instant::now();
        let result = lock.acquire().await;
        assert!(start.elapsed() <= ms(300) + NODE_TIMEOUT + ms(2), "{fault:?}: {:?}", start.elapsed());
        if !matches!(fault, Fault::Slow(delay) if delay < NODE_TIMEOUT) {
            assert!(matches!(result, Err(AcquireError::NoQuorum { .. })), "{fault:?}: {result:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_held_lock_ends_at_the_limit_with_the_holder() {
    let world = World::of(3);
    let _guard = world.lock("a").acquire().await.unwrap();
    let start = Instant::now();
    let refused = world.lock("a").wait(ms(1_500)).acquire().await;
    assert!(matches!(refused, Err(AcquireError::Held { holder: Holder::Owner { .. }, .. })), "{refused:?}");
    assert!(
        start.elapsed() >= ms(1_500) && start.elapsed() <= ms(1_500) + NODE_TIMEOUT,
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded_too() {
    let world = World::of(3);
    let _guard = world.lock("a").acquire().await.unwrap();
    let other = world.lock("a").attempts(3).unwrap().wait(Duration::from_secs(9));
    assert!(matches!(other.acquire().await, Err(AcquireError::Held { .. })));
    let refusals = world.count_events(|event| matches!(event, Event::Refused { .. }));
    assert_eq!(refusals, 3);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_lock_as_soon_as_it_is_released() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = world.lock("a");
        async move { lock.acquire().await.map(|guard| (Instant::now(), guard)) }
    });
    sleep(ms(700)).await;
    let released = Instant::now();
    assert!(matches!(guard.release().await, Release::Released));
    let (acquired, _guard) = waiter.await.unwrap().unwrap();
    assert!(acquired - released < ms(5), "woken by the hint, not by the poll: {:?}", acquired - released);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_without_hints_gets_the_lock_by_polling() {
    let world = World::of(1);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    let start = Instant::now();
    // Nobody releases: the lock simply runs out, and no hint tells.
    let next = world.lock("a").wait(Duration::from_secs(20)).acquire().await.unwrap();
    assert!(start.elapsed() >= ms(9_900) && start.elapsed() < ms(10_500), "{:?}", start.elapsed());
    assert!(next.fence() > guard.fence());
}

#[tokio::test(start_paused = true)]
async fn waiters_of_one_process_are_served_in_order() {
    let world = World::of(3);
    let locker = world.locker();
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..20 {
        let (lock, served) = (locker.named("a").unwrap(), served.clone());
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            served.send(number).unwrap();
            sleep(ms(10)).await;
            let _ = guard.release().await;
        });
        tokio::task::yield_now().await;
    }
    drop(served);
    let before = world.nodes[0].verbs().iter().filter(|verb| **verb == "acquire").count();
    sleep(ms(1_000)).await;
    let waiting = world.nodes[0].verbs().iter().filter(|verb| **verb == "acquire").count() - before;
    assert_eq!(waiting, 0, "nobody asks the nodes while a neighbour holds the lock");
    drop(guard);
    for expected in 0..20 {
        assert_eq!(order.recv().await, Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn partial_votes_are_released_before_the_retry_on_every_node_that_was_asked() {
    let world = World::of(3);
    world.break_nodes(2, &Fault::Mute);
    let lock = world.lock("a").wait(ms(200));
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
    let _ = world.lock("a").wait(ms(500)).acquire().await;
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
    assert!(matches!(late, Release::AlreadyGone), "{late:?}");
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
async fn a_cancellation_token_ends_the_wait_at_once_and_says_so() {
    let world = World::of(3);
    let _guard = world.lock("a").acquire().await.unwrap();
    let cancel = CancellationToken::new();
    let lock = world.lock("a").cancel_on(cancel.clone());
    let waiter = tokio::spawn(async move { lock.acquire().await });
    sleep(ms(500)).await;
    let start = Instant::now();
    cancel.cancel();
    assert!(matches!(waiter.await.unwrap(), Err(AcquireError::Cancelled { .. })));
    assert!(start.elapsed() < ms(2));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_away_gives_its_place_to_the_next() {
    let world = World::of(1);
    let locker = world.locker();
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let first = tokio::spawn({
        let lock = locker.named("a").unwrap();
        async move { lock.acquire().await.map(drop) }
    });
    tokio::task::yield_now().await;
    let second = tokio::spawn({
        let lock = locker.named("a").unwrap();
        async move { lock.acquire().await.map(drop) }
    });
    tokio::task::yield_now().await;
    first.abort();
    drop(guard);
    assert!(timeout(ms(50), second).await.unwrap().unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_watchdog_keeps_a_lock_far_beyond_its_ttl() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    sleep(10 * TTL).await;
    assert!(guard.is_held());
    assert!(guard.remaining() > TTL / 2);
    let extensions = world.count_events(|event| matches!(event, Event::Extended { .. }));
    assert!((25..=40).contains(&extensions), "a third of the validity apart: {extensions}");
    assert!(matches!(guard.release().await, Release::Released));
}

#[tokio::test(start_paused = true)]
async fn without_the_watchdog_a_lock_ends_at_its_deadline() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    let start = Instant::now();
    let lost = guard.lost().await;
    assert_eq!(lost.loss, Loss::Expired);
    assert!(start.elapsed() < ms(9_898) && start.elapsed() > ms(9_600), "{:?}", start.elapsed());
    assert_eq!(lost.to_string(), "lock `a` was lost: its time ran out");
}

#[tokio::test(start_paused = true)]
async fn loss_is_announced_before_the_deadline_when_all_nodes_fall_silent() {
    for fault in [Fault::Deaf, Fault::Mute, Fault::Slow(Duration::from_secs(60))] {
        let world = World::of(5);
        let guard = world.lock("a").acquire().await.unwrap();
        sleep(ms(2_000)).await;
        world.break_nodes(5, &fault);
        let remaining = guard.remaining();
        let start = Instant::now();
        let lost = guard.lost().await;
        assert_eq!(lost.loss, Loss::QuorumLost, "{fault:?}");
        assert!(start.elapsed() < remaining, "{fault:?}: {:?} of {remaining:?}", start.elapsed());
        assert!(guard.lost_token().is_cancelled());
    }
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
async fn an_extend_never_brings_a_lost_lock_back() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    sleep(TTL).await;
    assert_eq!(guard.standing(), Standing::Lost(Loss::Expired));
    assert!(matches!(guard.extend().await, Err(ExtendError::Lost(_))));
    assert_eq!(world.copies("a").await, 0, "nothing was created again");
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_a_majority_no_longer_has_is_lost_at_the_next_extend() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    let freed = world.lock("a").force_release(guard.token()).await;
    assert!(matches!(freed, Release::Released));
    let start = Instant::now();
    assert_eq!(guard.lost().await.loss, Loss::Taken);
    assert!(start.elapsed() < TTL / 2);
    assert_eq!(world.copies("a").await, 0, "no node was topped up after the loss");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_forgot_is_topped_up_while_the_lock_is_held() {
    let world = World::of(3);
    world.nodes[0].set(Fault::Deaf);
    let guard = world.lock("a").acquire().await.unwrap();
    world.nodes[0].set(Fault::None);
    assert_eq!(world.copies("a").await, 2);
    sleep(TTL / 2).await;
    assert_eq!(world.copies("a").await, 3);
    assert_eq!(world.nodes[0].verbs().iter().filter(|verb| **verb == "top_up").count(), 1);
    drop(guard);
    assert_eq!(world.copies("a").await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_longest_hold_ends_a_lock_that_the_watchdog_would_keep() {
    let world = World::of(3);
    let lock = world.lock("a").max_hold(Duration::from_secs(25)).unwrap();
    let guard = lock.acquire().await.unwrap();
    let start = Instant::now();
    assert_eq!(guard.lost().await.loss, Loss::MaxHold);
    assert!(start.elapsed() < Duration::from_secs(25) && start.elapsed() > Duration::from_secs(24));
}

#[tokio::test(start_paused = true)]
async fn the_loss_margin_gives_time_to_stop() {
    let world = World::of(3);
    let lock = world.lock("a").watchdog(false).loss_margin(Duration::from_secs(3)).unwrap();
    let guard = lock.acquire().await.unwrap();
    guard.lost().await;
    assert!(guard.remaining() == Duration::ZERO, "told to stop, so not held any more");
    assert!(world.copies("a").await == 3, "but nobody else can have it yet");
}

#[tokio::test(start_paused = true)]
async fn releasing_an_expired_lock_is_an_outcome_and_quick() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    sleep(2 * TTL).await;
    let start = Instant::now();
    let outcome = guard.release().await;
    assert!(matches!(outcome, Release::AlreadyGone), "{outcome:?}");
    assert!(start.elapsed() < NODE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn releasing_without_a_quorum_is_unconfirmed_and_bounded() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    world.break_nodes(2, &Fault::Deaf);
    let start = Instant::now();
    let outcome = guard.release().await;
    assert!(matches!(&outcome, Release::Unconfirmed { nodes } if nodes.len() == 3), "{outcome:?}");
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
    assert!(matches!(release.await.unwrap(), Release::Released));
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
async fn a_suspended_machine_ends_the_lease() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    sleep(ms(1_000)).await;
    world.clock.suspend(2 * TTL);
    assert!(!guard.is_held(), "seen at once, before any timer runs");
    let start = Instant::now();
    assert_eq!(guard.lost().await.loss, Loss::Suspended);
    assert!(start.elapsed() < ms(500));
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_jumps_ahead_makes_the_lock_unverified_until_a_majority_confirms() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    world.clock.jump_wall_millis(60_000);
    assert_eq!(guard.standing(), Standing::Unverified);
    assert_eq!(guard.remaining(), Duration::ZERO);
    sleep(ms(500)).await;
    assert!(guard.is_held(), "confirmed by the watchdog");
}

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
    let mut last = 0;
    for round in 0..30 {
        let guard = lockers[round % 3].named("a").unwrap().acquire().await.unwrap();
        assert!(guard.fence() > last, "{} after {last}", guard.fence());
        let seen = lockers[0].named("a").unwrap().inspect().await.unwrap();
        assert!(matches!(seen.holder, Holder::Owner { fence, .. } if fence.get() == guard.fence()));
        last = guard.fence();
        assert!(matches!(guard.release().await, Release::Released));
        sleep(ms(7)).await;
    }
    let stamps = world.nodes[0].verbs().iter().filter(|verb| **verb == "stamp").count();
    assert!((1..=8).contains(&stamps), "clients learn their lag instead of stamping each time: {stamps}");
}

#[tokio::test(start_paused = true)]
async fn run_returns_what_the_work_returns_and_releases() {
    let world = World::of(3);
    let lock = world.lock("a");
    let doubled = lock.run(|held| async move { held.fence() * 2 }).await.unwrap();
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

#[tokio::test(start_paused = true)]
async fn a_lock_can_move_to_another_process_as_text() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    let fence = guard.fence();
    let text = serde_json::to_string(&guard.into_handle().await.unwrap()).unwrap();
    assert_eq!(world.copies("a").await, 3, "given away, not released");

    let handle: Handle = serde_json::from_str(&text).unwrap();
    let adopted = world.locker().adopt(&handle).await.unwrap();
    assert_eq!(adopted.fence(), fence);
    sleep(3 * TTL).await;
    assert!(adopted.is_held(), "kept alive by its new owner");
    assert!(matches!(adopted.release().await, Release::Released));
    assert!(matches!(world.locker().adopt(&handle).await, Err(ExtendError::Lost(_))), "gone is gone");
}

#[tokio::test(start_paused = true)]
async fn force_release_demands_the_current_token() {
    let world = World::of(3);
    let old = world.lock("a").acquire().await.unwrap();
    let old_token = old.token();
    drop(old);
    let guard = world.lock("a").acquire().await.unwrap();
    assert!(matches!(world.lock("a").force_release(old_token).await, Release::AlreadyGone));
    assert!(guard.is_held() && world.copies("a").await == 3);
    assert!(matches!(world.lock("a").force_release(guard.token()).await, Release::Released));
}

#[tokio::test(start_paused = true)]
async fn an_inspection_changes_nothing_and_tells_per_node() {
    let world = World::of(3);
    let free = world.lock("a").inspect().await.unwrap();
    assert!(!free.is_held() && free.fence.is_none() && free.nodes.len() == 3);
    let guard = world.lock("a").acquire().await.unwrap();
    world.nodes[2].set(Fault::Deaf);
    let seen = world.lock("a").inspect().await.unwrap();
    assert_eq!((seen.votes, seen.fence), (2, Some(Fence::new(guard.fence()))));
    assert!(seen.left.unwrap() <= TTL && seen.nodes[2].view.is_err());
    world.nodes[1].set(Fault::Deaf);
    let error = world.lock("a").inspect().await.unwrap_err();
    assert!(error.to_string().contains("node2: no answer within 50ms"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_node_error_beside_a_quorum_is_not_an_error() {
    let world = World::of(3);
    world.break_nodes(1, &Fault::Broken(NodeError::Busy));
    let guard = world.lock("a").acquire().await.unwrap();
    assert!(guard.extend().await.is_ok());
    assert!(matches!(guard.release().await, Release::Released));
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_is_not_followed_by_a_sleep() {
    let world = World::of(3);
    let _guard = world.lock("a").acquire().await.unwrap();
    let start = Instant::now();
    assert!(world.lock("a").attempts(1).unwrap().acquire().await.is_err());
    assert!(start.elapsed() < ms(2), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn ordinary_contention_is_no_trouble_with_nodes() {
    let world = World::of(3);
    let _guard = world.lock("a").acquire().await.unwrap();
    assert!(world.lock("a").wait(ms(500)).acquire().await.is_err());
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
async fn an_extension_that_ends_after_the_deadline_extends_nothing() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    world.break_nodes(3, &Fault::Slow(ms(40)));
    let clock = world.clock.clone();
    tokio::spawn(async move {
        sleep(ms(20)).await;
        clock.suspend(TTL);
    });
    let late = guard.extend().await;
    assert!(matches!(late, Err(ExtendError::Lost(_))), "{late:?}");
    assert!(!guard.is_held());
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
async fn a_straggler_that_was_not_waited_for_keeps_nothing() {
    let world = World::of(3);
    world.nodes[2].set(Fault::Slow(ms(30)));
    let start = Instant::now();
    let guard = world.lock("a").acquire().await.unwrap();
    assert!(matches!(guard.release().await, Release::Released));
    assert!(start.elapsed() < ms(30), "answered at the quorum");
    assert_eq!(world.copies("a").await, 0, "its release followed its acquire");
}

#[tokio::test(start_paused = true)]
async fn no_command_follows_a_release() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    sleep(TTL).await;
    assert!(matches!(guard.release().await, Release::Released));
    sleep(2 * TTL).await;
    for node in &world.nodes {
        assert_eq!(node.verbs().last(), Some(&"release"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_ttl_is_kept_alive_like_a_long_one() {
    let world = World::of(3);
    let guard = world.lock("a").ttl(ms(220)).unwrap().acquire().await.unwrap();
    sleep(ms(5_000)).await;
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_while_an_extension_is_under_way() {
    let world = World::of(3);
    let lock = world.lock("a").ttl(ms(1_000)).unwrap();
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
    let builder = world.builder().observe(|_: &Event| panic!("a broken observer"));
    let guard = builder.build().unwrap().named("a").unwrap().acquire().await.unwrap();
    sleep(3 * TTL).await;
    assert!(guard.is_held(), "the watchdog survived it");
    assert!(matches!(guard.release().await, Release::Released));
}

#[test]
fn a_guard_whose_runtime_ended_is_told_so_and_can_be_dropped() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let locker = Locker::builder().nodes(["memory:"]).build().unwrap();
    let guard = runtime.block_on(async { locker.named("a").unwrap().acquire().await.unwrap() });
    drop(runtime);
    assert!(guard.lost_token().is_cancelled());
    assert_eq!(guard.standing(), Standing::Lost(Loss::Unwatched));
    drop(guard);
    let again = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    drop(again.block_on(async { locker.named("a").unwrap().try_acquire().await.unwrap() }));
}

/// Goal: what users move between threads can be moved.
#[test]
fn handles_are_send_and_sync() {
    fn check<T: Send + Sync + 'static>() {}
    fn check_future<T: Send>(_: &T) {}
    check::<Locker>();
    check::<quorlock::Lock>();
    check::<quorlock::Guard>();
    check::<quorlock::Held>();
    check::<quorlock::blocking::Guard>();
    check::<AcquireError>();
    let lock = Locker::builder().nodes(["memory:"]).build().unwrap().named("a").unwrap();
    check_future(&lock.acquire());
    check_future(&lock.run(|_| async {}));
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
