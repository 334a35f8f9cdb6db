//! Corners of the lock where a review found defects: each stays fixed.
#![allow(clippy::unwrap_used)]

mod common;

use common::{NODE_TIMEOUT, TTL, World};
use quorlock::core::{Drift, Lease, Moment, Token, Ttl, Wall};
use quorlock::node::{Answer, Bell, BoxFuture, Command, Health, MemoryNode, Node};
use quorlock::{AcquireError, Event, Fence, Held, Locker, Loss, Name, Release, Standing};
use quorlock_testkit::Fault;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// S1: at most one client has time left on a name. A `Held` outlives its guard.
#[tokio::test(start_paused = true)]
async fn a_clone_of_held_has_no_time_left_once_the_guard_is_released() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    let stale = Held::clone(&guard);
    assert!(matches!(guard.release().await, Release::Released));
    let next = world.lock("a").acquire().await.unwrap();
    assert!(next.is_held());
    assert!(
        !stale.is_held(),
        "two holders with time left: {:?} and {:?}",
        stale.remaining(),
        next.remaining()
    );
}

/// The same through `run`, whose work gets a `Held` by value and may give it to a task.
#[tokio::test(start_paused = true)]
async fn a_task_left_behind_by_run_sees_that_the_lock_is_gone() {
    let world = World::of(3);
    let left_behind = world.lock("a").run(|held| async move { held }).await.unwrap();
    assert!(!left_behind.is_held(), "{left_behind:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_the_loss_is_woken_by_the_release() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    let held = Held::clone(&guard);
    let waiter = tokio::spawn(async move { held.lost().await });
    tokio::task::yield_now().await;
    let _ = guard.release().await;
    assert!(timeout(10 * TTL, waiter).await.is_ok(), "the task waits for ever");
}

/// A pause that only the wall clock shows: the old deadline was computed on a clock that stood still.
#[test]
fn a_confirmation_after_an_unseen_pause_does_not_keep_the_old_deadline() {
    let secs = Duration::from_secs;
    let ttl = |span| Ttl::new(secs(span), Drift::DEFAULT, ms(50), secs(60)).unwrap();
    let boot = |at| Moment::from_boot(secs(at));
    let wall = |at: u64| Wall::from_micros(1_700_000_000_000_000 + at * 1_000_000);
    let token = Token::from_random([1; 16]);
    // Granted for 30 s; after 1 s the virtual machine stands still for 20 s, which its boot clock does not count.
    let mut lease = Lease::new(token, Fence::new(1), ttl(30), None, boot(1_000), wall(0));
    assert_eq!(lease.standing(boot(1_001), wall(21)), Standing::Unverified);
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
    // The machine stands still for 25 s: the nodes' clocks go on, our boot clock does not. `world.clock` is the
    // nodes' clock, so model it as: everybody else moves on by 25 s, and our deadline with them.
    let before = guard.remaining();
    world.clock.jump_wall_millis(25_000);
    assert_eq!(guard.standing(), Standing::Unverified);
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
    let lost = guard.lost().await;
    assert!(start.elapsed() < ms(1_000), "{lost} only after {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn waiting_without_a_limit_does_not_panic() {
    let world = World::of(3);
    let guard = world.lock("a").wait(Duration::MAX).acquire().await;
    assert!(guard.is_ok());
}

/// L2: the limit is kept to within one node timeout, also when somebody holds the lock and nodes are slow.
#[tokio::test(start_paused = true)]
async fn the_wait_limit_is_kept_on_slow_nodes_while_somebody_holds_the_lock() {
    let mut worst = (Duration::ZERO, 0);
    for wait in (100..600).step_by(5) {
        let world = World::of(3);
        let _guard = world.lock("a").acquire().await.unwrap();
        world.break_nodes(3, &Fault::Slow(ms(49)));
        let start = Instant::now();
        assert!(world.lock("a").wait(ms(wait)).acquire().await.is_err());
        worst = worst.max((start.elapsed().saturating_sub(ms(wait)), wait));
    }
    assert!(worst.0 <= NODE_TIMEOUT + ms(2), "over by {:?} for a limit of {} ms", worst.0, worst.1);
}

/// The same when nodes fall silent, and when there are no connections yet.
#[tokio::test(start_paused = true)]
async fn the_wait_limit_is_kept_when_the_nodes_never_settle() {
    #[derive(Debug)]
    struct Unsettled;
    impl Node for Unsettled {
        fn id(&self) -> &str {
            "unsettled"
        }
        fn send(&self, _: &Command, answer: Answer) {
            std::mem::forget(answer);
        }
        fn watch(&self, _: &Name, _: &Bell) {}
        fn unwatch(&self, _: &Name) {}
        fn settle(&self) -> BoxFuture<'_, ()> {
            Box::pin(std::future::pending())
        }
    }
    let locker = Locker::builder()
        .node(Arc::new(Unsettled))
        .clock(quorlock_testkit::TestClock::start())
        .build()
        .unwrap();
    let start = Instant::now();
    assert!(locker.named("a").unwrap().wait(ms(300)).acquire().await.is_err());
    assert!(start.elapsed() <= ms(300) + NODE_TIMEOUT + ms(2), "{:?}", start.elapsed());
}

/// A waiter behind a guard of its own process must hear that the lock was given away.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_when_its_neighbour_gives_the_lock_away() {
    let world = World::of(3);
    let locker = world.locker();
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = locker.named("a").unwrap().wait(Duration::from_secs(60));
        async move { lock.acquire().await.map(drop) }
    });
    sleep(ms(100)).await;
    let handle = guard.into_handle().await.unwrap();
    let adopted = world.locker().adopt(&handle).await.unwrap();
    sleep(ms(500)).await;
    let start = Instant::now();
    assert!(matches!(adopted.release().await, Release::Released));
    waiter.await.unwrap().unwrap();
    assert!(start.elapsed() < ms(50), "the lock was free for {:?}", start.elapsed());
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
    assert!(guard.is_held(), "lost with two of three nodes healthy: {:?}", guard.standing());
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
    assert!(matches!(outcome, Release::Released), "{outcome} after {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_first_answer_was_lost_is_still_ours() {
    let world = World::of(3);
    let guard = world.lock("a").acquire().await.unwrap();
    world.break_nodes(2, &Fault::Mute);
    let release = tokio::spawn(guard.release());
    sleep(ms(60)).await;
    world.break_nodes(2, &Fault::None);
    let outcome = release.await.unwrap();
    assert!(matches!(outcome, Release::Released), "we released it, nobody else did: {outcome}");
}

#[tokio::test(start_paused = true)]
async fn a_short_longest_hold_is_not_lost_at_birth() {
    let world = World::of(3);
    let guard = world.lock("a").max_hold(ms(190)).unwrap().acquire().await.unwrap();
    sleep(ms(50)).await;
    assert!(guard.is_held(), "{:?}", guard.standing());
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_outlasts_the_longest_hold_grants_nothing() {
    let world = World::of(3);
    world.break_nodes(3, &Fault::Slow(ms(40)));
    let late = world.lock("a").max_hold(ms(20)).unwrap().try_acquire().await;
    assert!(!late.as_ref().is_ok_and(|guard| !guard.is_held()), "a guard that never held: {late:?}");
}

/// A node that counts who watches.
#[derive(Debug)]
struct Counting {
    node: MemoryNode,
    watches: AtomicI64,
    log: Mutex<Vec<&'static str>>,
}

impl Node for Counting {
    fn id(&self) -> &str {
        self.node.id()
    }
    fn send(&self, command: &Command, answer: Answer) {
        self.node.send(command, answer);
    }
    fn watch(&self, name: &Name, bell: &Bell) {
        self.log.lock().unwrap().push("watch");
        self.watches.store(1, Ordering::SeqCst);
        self.node.watch(name, bell);
    }
    fn unwatch(&self, name: &Name) {
        self.log.lock().unwrap().push("unwatch");
        self.watches.store(0, Ordering::SeqCst);
        self.node.unwatch(name);
    }
    fn health(&self) -> Health {
        self.node.health()
    }
}

/// The first in line lets the next one go before it has ended its own subscription, which then ends the next one's.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_subscription_of_the_next_in_line_survives_the_first_ones_end() {
    let clock: Arc<dyn quorlock::Clock> = Arc::new(quorlock::SystemClock);
    let node = Arc::new(Counting {
        node: MemoryNode::new("one", clock),
        watches: AtomicI64::new(0),
        log: Mutex::default(),
    });
    // An observer that is not quick, or a thread that is preempted here.
    let slow = |event: &Event| {
        if matches!(event, Event::Acquired { .. }) {
            std::thread::sleep(ms(100));
        }
    };
    let other = Locker::builder().node(node.clone()).build().unwrap();
    let held = other.named("a").unwrap().acquire().await.unwrap();
    let locker = Locker::builder().node(node.clone()).observe(slow).build().unwrap();
    let lock = locker.named("a").unwrap();
    let first = tokio::spawn({
        let lock = lock.clone();
        async move {
            let guard = lock.acquire().await.unwrap();
            sleep(ms(600)).await;
            drop(guard);
        }
    });
    sleep(ms(100)).await;
    // On the thread of the test itself: a spawned task would be woken into the slot of the slow observer's thread.
    let look = tokio::spawn({
        let node = node.clone();
        async move {
            sleep(ms(100)).await;
            drop(held);
            sleep(ms(400)).await;
            // The second waits at the nodes now, and must be subscribed; or behind its neighbour, and never asked.
            (node.watches.load(Ordering::SeqCst), node.log.lock().unwrap().clone())
        }
    });
    drop(lock.acquire().await.unwrap());
    let (watches, log) = look.await.unwrap();
    first.await.unwrap();
    let asked = log.iter().filter(|entry| **entry == "watch").count() > 1;
    assert!(!asked || watches == 1, "the second in line lost its subscription: {log:?}");
}

/// The bound on the whole hold must not start anew with every change of hands.
#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_not_given_away() {
    let world = World::of(3);
    let lock = world.lock("a").max_hold(ms(1_000)).unwrap();
    let guard = lock.acquire().await.unwrap();
    world.nodes[2].set(Fault::Slow(ms(45)));
    sleep(ms(770)).await;
    // The longest hold ends while the last node is heard.
    let handle = guard.into_handle().await;
    assert!(handle.is_err() || world.count_events(|event| matches!(event, Event::Lost { .. })) == 0);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_die_between_vote_and_stamp_are_no_quorum_at_once() {
    let world = World::of(3);
    // Counters far ahead of our clock, so that a stamp is needed.
    let ahead = quorlock_testkit::TestClock::start();
    ahead.jump_wall_millis(60_000);
    drop(world.builder_with_clock(ahead).build().unwrap().named("a").unwrap().acquire().await.unwrap());
    world.break_nodes(3, &Fault::Slow(ms(10)));
    let lock = world.lock("a");
    let attempt = tokio::spawn(async move { lock.try_acquire().await.map(drop) });
    sleep(ms(5)).await;
    world.break_nodes(3, &Fault::Deaf);
    let refused = attempt.await.unwrap();
    assert!(matches!(refused, Err(AcquireError::NoQuorum { .. })), "{refused:?}");
}

/// A lost lock says so to the end, whatever is asked of it later.
#[tokio::test(start_paused = true)]
async fn the_first_reason_stays() {
    let world = World::of(3);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    let lost = guard.lost().await;
    sleep(TTL).await;
    assert_eq!(guard.standing(), Standing::Lost(lost.loss));
    assert_eq!(lost.loss, Loss::Expired);
}

/// L3: a process whose line is never empty hands the lock over to itself; others must get it now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_process_does_not_starve_another() {
    let servers = quorlock_testkit::Servers::start(3);
    let build = || {
        let builder = Locker::builder().nodes(servers.urls()).ttl(Duration::from_secs(5));
        builder.node_timeout(ms(300)).build().unwrap()
    };
    let (busy, other) = (build(), build());
    for (node, result) in busy.init_fresh_nodes().await {
        result.unwrap_or_else(|error| panic!("{node}: {error}"));
    }
    other.connect().await;
    let turns = Arc::new(AtomicI64::new(0));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (lock, turns) = (busy.named("a").unwrap().wait(Duration::from_secs(60)), turns.clone());
            tokio::spawn(async move {
                loop {
                    let guard = lock.acquire().await.unwrap();
                    turns.fetch_add(1, Ordering::SeqCst);
                    sleep(ms(5)).await;
                    let _ = guard.release().await;
                }
            })
        })
        .collect();
    sleep(ms(300)).await;
    let before = turns.load(Ordering::SeqCst);
    let start = std::time::Instant::now();
    let got = other.named("a").unwrap().wait(Duration::from_secs(6)).acquire().await;
    let (waited, passed) = (start.elapsed(), turns.load(Ordering::SeqCst) - before);
    tasks.iter().for_each(|task| task.abort());
    eprintln!("{:?} after {waited:?} and {passed} turns of the busy process", got.is_ok());
    assert!(got.is_ok() && passed < 100, "{passed} turns of the busy process went before, in {waited:?}");
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

#[tokio::test(start_paused = true)]
async fn one_node_of_ones_own_making_given_twice_is_refused() {
    let node: Arc<dyn Node> = Arc::new(MemoryNode::new("one", Arc::new(quorlock::SystemClock)));
    let built = Locker::builder().node(node.clone()).node(node.clone()).node(node).build();
    assert!(matches!(built, Err(quorlock::ConfigError::SameNode { .. })), "one server cannot be three nodes");
}

/// A wall clock that is set right (NTP) in the last stretch of the longest hold, on healthy nodes.
#[tokio::test(start_paused = true)]
async fn an_unverified_lock_is_confirmed_also_in_the_last_stretch_of_its_longest_hold() {
    let world = World::of(3);
    let lock = world.lock("a").max_hold(Duration::from_secs(9)).unwrap();
    let guard = lock.acquire().await.unwrap();
    world.clock.jump_wall_millis(2_000);
    assert_eq!(guard.standing(), Standing::Unverified);
    sleep(ms(1_000)).await;
    assert!(guard.is_held(), "a healthy majority has it: {:?}", guard.standing());
}

/// Fences stay near the wall clock: a client must not take the time of a round for a lag of its clock.
#[tokio::test(start_paused = true)]
async fn equal_clocks_learn_no_lead_from_slow_rounds() {
    let world = World::of(3);
    world.break_nodes(3, &Fault::Slow(ms(40)));
    let lockers: Vec<Locker> = (0..4).map(|_| world.locker()).collect();
    let mut tasks = Vec::new();
    for locker in &lockers {
        let lock = locker.named("a").unwrap().wait(Duration::from_secs(600));
        tasks.push(tokio::spawn(async move {
            let mut ahead = 0;
            for _ in 0..50 {
                let guard = lock.acquire().await.unwrap();
                ahead = ahead.max(guard.fence());
                sleep(ms(3)).await;
                let _ = guard.release().await;
            }
            ahead
        }));
    }
    let mut highest = 0;
    for task in tasks {
        highest = highest.max(task.await.unwrap());
    }
    let wall = quorlock::Clock::wall(world.clock.as_ref()).as_micros();
    assert!(highest <= wall + 1_000, "fences run {} us ahead of every clock", highest - wall);
}
