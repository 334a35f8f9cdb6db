//! Waiters of one process: their line, and fairness to others.

use crate::world::{LONG, NODE_TIMEOUT, World, end_of, loss_of, ms};
use quorlock::node::{Command, Health, MemoryNode, Node, Request, Wakeup};
use quorlock::{Event, Locker, LossReason, Name, ReleaseOutcome};
use quorlock_testkit::{Fault, within};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

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
        assert_eq!(within("a turn", LONG, order.recv()).await, Some(expected));
    }
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

/// A waiter behind a guard of its own process must hear that the lock was given away.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_when_its_neighbour_gives_the_lock_away() {
    let world = World::of(3);
    let locker = world.locker();
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = locker.named("a").unwrap().wait_timeout(Duration::from_secs(60));
        async move { lock.acquire().await.map(drop) }
    });
    sleep(ms(100)).await;
    let handle = guard.into_handle().await.unwrap();
    let adopted = world.locker().adopt(&handle).await.unwrap();
    sleep(ms(500)).await;
    let start = Instant::now();
    assert!(matches!(adopted.release().await, ReleaseOutcome::Released));
    end_of(waiter).await.unwrap();
    assert!(start.elapsed() < ms(50), "the lock was free for {:?}", start.elapsed());
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
    fn send(&self, request: Request) {
        self.node.send(request);
    }
    fn watch(&self, name: &Name, wakeup: &Wakeup) {
        self.log.lock().unwrap().push("watch");
        self.watches.store(1, Ordering::SeqCst);
        self.node.watch(name, wakeup);
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

/// A node that reports each request to release, and answers it late.
#[derive(Debug)]
struct Dawdling {
    node: MemoryNode,
    releasing: tokio::sync::Notify,
}

impl Node for Dawdling {
    fn id(&self) -> &str {
        self.node.id()
    }
    fn send(&self, request: Request) {
        if matches!(request.command(), Command::Release { .. }) {
            self.releasing.notify_one();
            std::thread::sleep(ms(100));
        }
        self.node.send(request);
    }
    fn watch(&self, name: &Name, wakeup: &Wakeup) {
        self.node.watch(name, wakeup);
    }
    fn unwatch(&self, name: &Name) {
        self.node.unwatch(name);
    }
}

/// A client that comes while a neighbour's release is on its way to some nodes only would come before it on the others, be
/// refused, and wait for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn who_comes_while_a_neighbour_lets_go_is_granted_at_once() {
    let clock: Arc<dyn quorlock::Clock> = Arc::new(quorlock::SystemClock);
    let node = |name: &str| MemoryNode::new(name, clock.clone());
    let slow = Arc::new(Dawdling { node: node("two"), releasing: tokio::sync::Notify::new() });
    let refused = Arc::new(AtomicI64::new(0));
    let count = refused.clone();
    let locker = Locker::builder()
        .node(Arc::new(node("one")))
        .node(slow.clone())
        .node(Arc::new(node("three")))
        .observer(move |event: &Event| {
            count.fetch_add(i64::from(matches!(event, Event::Refused { .. })), Ordering::SeqCst);
        })
        .build()
        .unwrap();
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let release = tokio::spawn(guard.release());
    within("the release is on its way", LONG, slow.releasing.notified()).await;
    let next = locker.named("a").unwrap().acquire().await.unwrap();
    assert!(matches!(end_of(release).await, ReleaseOutcome::Released));
    assert_eq!(refused.load(Ordering::SeqCst), 0);
    drop(next);
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
    let locker = Locker::builder().node(node.clone()).observer(slow).build().unwrap();
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

/// L3: a process whose line is never empty hands the lock over to itself; others must get it now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_process_does_not_starve_another() {
    let servers = quorlock_testkit::Servers::start(3);
    let build = || {
        let builder = Locker::builder().nodes(servers.urls()).ttl(Duration::from_secs(5));
        builder.node_timeout(ms(300)).build().unwrap()
    };
    let (busy, other) = (build(), build());
    quorlock_testkit::init_nodes(&busy).await;
    other.connect().await.unwrap();
    let turns = Arc::new(AtomicI64::new(0));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (lock, turns) =
                (busy.named("a").unwrap().wait_timeout(Duration::from_secs(60)), turns.clone());
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
    let got = other.named("a").unwrap().wait_timeout(Duration::from_secs(6)).acquire().await;
    let (waited, passed) = (start.elapsed(), turns.load(Ordering::SeqCst) - before);
    tasks.iter().for_each(|task| task.abort());
    eprintln!("{:?} after {waited:?} and {passed} turns of the busy process", got.is_ok());
    assert!(got.is_ok() && passed < 100, "{passed} turns of the busy process went before, in {waited:?}");
}

/// Mutant: `Hold::lose` does not ring.
#[tokio::test(start_paused = true)]
async fn a_waiter_tries_at_once_when_its_neighbour_is_lost_early() {
    let world = World::of(3);
    let locker = world.locker();
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = locker.named("a").unwrap().wait_timeout(Duration::from_secs(60));
        async move { lock.acquire().await.map(drop) }
    });
    sleep(ms(100)).await;
    let _ = world.lock("a").force_release(guard.token()).await;
    assert_eq!(loss_of(&guard.lease()).await.reason, LossReason::Taken);
    let start = Instant::now();
    end_of(waiter).await.unwrap();
    assert!(start.elapsed() < ms(50), "free for {:?}", start.elapsed());
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
    end_of(waiter).await.unwrap();
    assert!(start.elapsed() < ms(40), "one round trip, not {:?}", start.elapsed());
    assert!(matches!(end_of(release).await, ReleaseOutcome::Released));
}

/// Mutant: waiting behind a neighbour has no limit.
#[tokio::test(start_paused = true)]
async fn the_wait_limit_is_kept_behind_a_neighbour() {
    let world = World::of(3);
    let locker = world.locker();
    let _guard = locker.named("a").unwrap().acquire().await.unwrap();
    let start = Instant::now();
    let first = locker.named("a").unwrap().wait_timeout(ms(300));
    let second = locker.named("a").unwrap().wait_timeout(ms(400));
    let both = async { tokio::join!(first.acquire(), second.acquire()) };
    let (first, second) = tokio::time::timeout(ms(1_000), both).await.unwrap();
    assert!(first.is_err() && second.is_err());
    assert!(start.elapsed() <= ms(400) + NODE_TIMEOUT, "{:?}", start.elapsed());
}

/// Goal: a lock that other processes can release is watched on the nodes, although a guard of this process has it.
#[tokio::test(start_paused = true)]
async fn a_neighbour_whose_lock_others_can_release_is_not_waited_for_to_its_end() {
    let world = World::of(3);
    let locker = world.locker();
    let lock = locker.named("a").unwrap().outlives_process(true).watchdog(false);
    let guard = lock.acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = locker.named("a").unwrap().wait_timeout(Duration::from_secs(60));
        async move { lock.acquire().await.map(drop) }
    });
    sleep(ms(100)).await;
    let start = Instant::now();
    let _ = world.lock("a").force_release(guard.token()).await;
    end_of(waiter).await.unwrap();
    assert!(start.elapsed() < ms(2_000), "free for {:?}", start.elapsed());
}
