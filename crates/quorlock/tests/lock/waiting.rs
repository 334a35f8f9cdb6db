//! Waiting for a lock: hints, polls and limits.

use crate::world::{NODE_TIMEOUT, TTL, World, end_of, ms};
use quorlock::node::{BoxFuture, Command, Node, NodeError, Reply, Request, Wakeup};
use quorlock::{
    AcquireError, CancellationToken, Event, Guard, Holder, Lock, Locker, Name, ReleaseOutcome, RestartGuard,
};
use quorlock_testkit::{Fault, TestClock};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn the_wait_limit_is_kept_whatever_the_nodes_do() {
    for fault in [Fault::Deaf, Fault::Mute, Fault::Slow(ms(500)), Fault::Slow(ms(49))] {
        let world = World::of(3);
        world.break_nodes(2, &fault);
        let lock = world.lock("a").wait_timeout(ms(300));
        let start = Instant::now();
        let result = lock.acquire().await;
        assert!(start.elapsed() <= ms(300) + NODE_TIMEOUT + ms(2), "{fault:?}: {:?}", start.elapsed());
        if !matches!(fault, Fault::Slow(delay) if delay < NODE_TIMEOUT) {
            assert!(matches!(result, Err(AcquireError::NoQuorum { .. })), "{fault:?}: {result:?}");
        }
    }
}

/// Goal: a call that may wait does not fail because the nodes cannot be reached for a moment.
#[tokio::test(start_paused = true)]
async fn a_permit_is_waited_for_while_too_few_nodes_answer() {
    let world = World::of(3);
    world.break_nodes(2, &Fault::Broken(NodeError::Abandoned));
    let semaphore = world.builder().wait_timeout(ms(5_000)).build().unwrap().semaphore("gpu", 2).unwrap();
    let start = Instant::now();
    let waiter = tokio::spawn(async move { semaphore.acquire().await });
    sleep(ms(700)).await;
    world.break_nodes(2, &Fault::None);
    let _permit = end_of(waiter).await.unwrap();
    assert!(start.elapsed() < ms(2_000), "{:?}", start.elapsed());

    world.break_nodes(2, &Fault::Broken(NodeError::Abandoned));
    let semaphore = world.builder().wait_timeout(ms(300)).build().unwrap().semaphore("gpu", 2).unwrap();
    let (start, refused) = (Instant::now(), semaphore.acquire().await);
    assert!(matches!(refused, Err(AcquireError::NoQuorum { answered: 1, .. })), "{refused:?}");
    assert!(start.elapsed() >= ms(300) && start.elapsed() <= ms(300) + NODE_TIMEOUT + ms(2));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_held_lock_ends_at_the_limit_with_the_holder() {
    let world = World::of(3);
    let _guard = world.lock("a").acquire().await.unwrap();
    let start = Instant::now();
    let refused = world.lock("a").wait_timeout(ms(1_500)).acquire().await;
    assert!(matches!(refused, Err(AcquireError::Held { holder: Holder::Owner { .. }, .. })), "{refused:?}");
    let named = |event: &Event| matches!(event, Event::Waiting { holder: Some(_), .. });
    assert!(world.count_events(named) > 0, "observers learn for whom it waits");
    assert!(
        start.elapsed() >= ms(1_500) && start.elapsed() <= ms(1_500) + NODE_TIMEOUT,
        "{:?}",
        start.elapsed()
    );
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
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    let (acquired, _guard) = end_of(waiter).await.unwrap();
    assert!(acquired - released < ms(5), "woken by the hint, not by the poll: {:?}", acquired - released);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_without_hints_gets_the_lock_by_polling() {
    let world = World::of(1);
    let guard = world.lock("a").watchdog(false).acquire().await.unwrap();
    let start = Instant::now();
    // No client releases: the lock expires, and no node sends a hint.
    let next = world.lock("a").wait_timeout(Duration::from_secs(20)).acquire().await.unwrap();
    assert!(start.elapsed() >= ms(9_900) && start.elapsed() < ms(10_500), "{:?}", start.elapsed());
    assert!(next.fence() > guard.fence());
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
    assert!(matches!(end_of(waiter).await, Err(AcquireError::Cancelled { .. })));
    assert!(start.elapsed() < ms(2));
}

#[tokio::test(start_paused = true)]
async fn waiting_without_a_limit_does_not_panic() {
    let world = World::of(3);
    let guard = world.lock("a").wait_timeout(Duration::MAX).acquire().await;
    assert!(guard.is_ok());
}

/// L2: the limit is kept to within one node timeout, also when another client holds the lock and nodes are slow.
#[tokio::test(start_paused = true)]
async fn the_wait_limit_is_kept_on_slow_nodes_while_somebody_holds_the_lock() {
    let mut worst = (Duration::ZERO, 0);
    for wait in (100..600).step_by(5) {
        let world = World::of(3);
        let _guard = world.lock("a").acquire().await.unwrap();
        world.break_nodes(3, &Fault::Slow(ms(49)));
        let start = Instant::now();
        assert!(world.lock("a").wait_timeout(ms(wait)).acquire().await.is_err());
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
        fn send(&self, request: Request) {
            std::mem::forget(request);
        }
        fn watch(&self, _: &Name, _: &Wakeup) {}
        fn unwatch(&self, _: &Name) {}
        fn wait_connected(&self) -> BoxFuture<'_, ()> {
            Box::pin(std::future::pending())
        }
    }
    let locker = Locker::builder().node(Arc::new(Unsettled)).clock(TestClock::start()).build().unwrap();
    let start = Instant::now();
    assert!(locker.named("a").unwrap().wait_timeout(ms(300)).acquire().await.is_err());
    assert!(start.elapsed() <= ms(300) + NODE_TIMEOUT + ms(2), "{:?}", start.elapsed());
}

/// Goal: L4. A reader is refused; before it has subscribed to hints the writer becomes a reader, too. No hint
/// comes, and the reader does not wait for its next poll.
#[tokio::test(start_paused = true)]
async fn a_reader_that_was_refused_just_before_a_downgrade_tries_again_at_once() {
    #[derive(Debug)]
    struct DowngradesFirst {
        node: Arc<dyn Node>,
        guard: Guard,
    }
    impl Node for DowngradesFirst {
        fn id(&self) -> &str {
            self.node.id()
        }
        fn send(&self, request: Request) {
            self.node.send(request);
        }
        fn watch(&self, name: &Name, wakeup: &Wakeup) {
            self.guard.downgrade();
            self.node.watch(name, wakeup);
        }
        fn unwatch(&self, name: &Name) {
            self.node.unwatch(name);
        }
    }
    let world = World::of(1);
    let guard = world.lock("a").acquire().await.unwrap();
    let node = Arc::new(DowngradesFirst { node: world.nodes[0].clone(), guard });
    let builder = Locker::builder().node(node).clock(world.clock.clone()).restart_guard(RestartGuard::Off);
    let start = Instant::now();
    let reader = builder.build().unwrap().named("a").unwrap().shared().acquire().await;
    assert!(reader.is_ok() && start.elapsed() < ms(20), "{reader:?} after {:?}", start.elapsed());
}

/// Goal: L4. A waiter tries when a majority has reported the release, but two of these nodes cannot vote, and the
/// last one that can executes the release 10 ms later. The waiter does not wait for its next poll.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_ahead_of_the_release_on_the_last_voter_tries_again_soon() {
    #[derive(Debug)]
    enum Trouble {
        CannotVote,
        ReleasesLate,
        /// Hints of several servers about one release count once.
        GivesNoHint,
    }
    #[derive(Debug)]
    struct Troubled(Arc<dyn Node>, Trouble);
    impl Node for Troubled {
        fn id(&self) -> &str {
            self.0.id()
        }
        fn send(&self, request: Request) {
            match (&self.1, request.command()) {
                (Trouble::CannotVote, Command::Acquire(_)) => {
                    request.answer(Reply::failed(NodeError::Quarantined { left: TTL }));
                }
                (Trouble::ReleasesLate, Command::Release { .. }) => {
                    let node = self.0.clone();
                    tokio::spawn(async move {
                        sleep(ms(10)).await;
                        node.send(request);
                    });
                }
                _ => self.0.send(request),
            }
        }
        fn watch(&self, name: &Name, wakeup: &Wakeup) {
            if !matches!(self.1, Trouble::GivesNoHint) {
                self.0.watch(name, wakeup);
            }
        }
        fn unwatch(&self, name: &Name) {
            self.0.unwatch(name);
        }
    }
    let world = World::of(5);
    let lock = |troubles: [Option<Trouble>; 5]| {
        let builder = Locker::builder().clock(world.clock.clone()).restart_guard(RestartGuard::Off).ttl(TTL);
        let nodes = world.nodes.iter().zip(troubles);
        let builder = nodes.fold(builder, |builder, (node, trouble)| match trouble {
            None => builder.node(node.clone()),
            Some(trouble) => builder.node(Arc::new(Troubled(node.clone(), trouble))),
        });
        builder.build().unwrap().named("a").unwrap()
    };
    let holder = lock([None, None, Some(Trouble::ReleasesLate), None, None]).acquire().await.unwrap();
    let (silenced, quiet) = (|| Some(Trouble::CannotVote), Some(Trouble::GivesNoHint));
    let waiting = lock([silenced(), silenced(), quiet, None, None]);
    let waiter = tokio::spawn(async move { waiting.acquire().await });
    sleep(ms(500)).await;
    let start = Instant::now();
    let _ = holder.release().await;
    let guard = end_of(waiter).await.unwrap();
    assert!(guard.is_held() && start.elapsed() < ms(60), "{:?}", start.elapsed());
}

/// A node whose hints only the test sends.
#[derive(Debug)]
struct HintedByTest {
    node: Arc<dyn Node>,
    wakeup: OnceLock<Wakeup>,
}

impl HintedByTest {
    fn new(node: Arc<dyn Node>) -> Arc<Self> {
        Arc::new(Self { node, wakeup: OnceLock::new() })
    }

    fn lock(self: &Arc<Self>, clock: &Arc<TestClock>) -> Lock {
        let builder =
            Locker::builder().node(self.clone()).clock(clock.clone()).restart_guard(RestartGuard::Off);
        builder.build().unwrap().named("a").unwrap()
    }

    /// Hints at `release`, of which as many processes are notified as `subscribers` says.
    fn hint(&self, release: u64, subscribers: usize) {
        self.wakeup.get().unwrap().notify_release(release, subscribers);
    }
}

impl Node for HintedByTest {
    fn id(&self) -> &str {
        self.node.id()
    }
    fn send(&self, request: Request) {
        self.node.send(request);
    }
    fn watch(&self, _: &Name, wakeup: &Wakeup) {
        let _ = self.wakeup.set(wakeup.clone());
    }
    fn unwatch(&self, _: &Name) {}
}

/// Lets the other tasks run while no time passes.
async fn let_tasks_run() {
    for _ in 0..50 {
        yield_now().await;
    }
}

/// Goal: while others take the lock one after the other, a waiter does not try before its turn, and then at once.
#[tokio::test(start_paused = true)]
async fn each_hint_brings_a_waiter_nearer_to_its_turn_without_an_attempt() {
    let world = World::of(1);
    let _holder = world.lock("a").acquire().await.unwrap();
    let node = HintedByTest::new(world.nodes[0].clone());
    let lock = node.lock(&world.clock);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    let_tasks_run().await;
    let asked = || world.nodes[0].verbs().iter().filter(|verb| **verb == "acquire").count();
    let before = asked();
    for release in 1..10 {
        node.hint(release, 10);
        let_tasks_run().await;
        assert_eq!(asked(), before, "{release}");
    }
    node.hint(10, 10);
    let_tasks_run().await;
    assert_eq!(asked(), before + 1, "nine others have had it");
    waiter.abort();
}

/// Goal: a process whose tasks had the lock 16 times in a row does not get it again before a process that waits,
/// even if that one has just arrived behind eight others.
#[tokio::test(start_paused = true)]
async fn a_busy_process_waits_longer_than_one_that_has_just_arrived() {
    let world = World::of(1);
    let (busy, turns) = (world.lock("a"), Arc::new(Mutex::new(Vec::new())));
    let first = busy.acquire().await.unwrap();
    let node = HintedByTest::new(world.nodes[0].clone());
    let mut tasks = JoinSet::new();
    tasks.spawn({
        let (lock, turns) = (node.lock(&world.clock), turns.clone());
        async move {
            let guard = lock.acquire().await.unwrap();
            turns.lock().unwrap().push("other");
            let _ = guard.release().await;
        }
    });
    let_tasks_run().await;
    for _ in 0..40 {
        let (lock, turns, node) = (busy.clone(), turns.clone(), node.clone());
        tasks.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            turns.lock().unwrap().push("busy");
            let had = turns.lock().unwrap().len();
            let _ = guard.release().await;
            if had == 15 {
                node.hint(1, 9);
            }
        });
    }
    let_tasks_run().await;
    let _ = first.release().await;
    tasks.join_all().await;
    let turns = turns.lock().unwrap();
    assert_eq!(turns.iter().position(|turn| *turn == "other"), Some(15));
}

/// Mutant: the poll is not bounded by what the holder has left.
#[tokio::test(start_paused = true)]
async fn a_waiter_polls_when_the_holder_runs_out_not_a_second_later() {
    for left in [7_130, 8_130, 9_130, 9_530, 9_830] {
        let world = World::of(1);
        std::mem::forget(world.lock("a").watchdog(false).acquire().await.unwrap());
        sleep(ms(left)).await;
        let start = Instant::now();
        let _guard = world.lock("a").wait_timeout(Duration::from_secs(20)).acquire().await.unwrap();
        let late = start.elapsed().saturating_sub(TTL - ms(left));
        assert!(late <= ms(5), "free for {late:?}");
    }
}

/// Votes that wait in our own queue must not use up the node timeout of votes that are under way.
#[tokio::test(start_paused = true)]
async fn attempts_wait_for_their_turn_before_they_are_sent() {
    let world = World::of(3);
    world.break_nodes(3, &Fault::Slow(ms(20)));
    let locker = world.locker();
    let asked = |world: &World| world.nodes[0].verbs().iter().filter(|verb| **verb == "acquire").count();
    let mut tasks = JoinSet::new();
    for number in 0..600 {
        let lock = locker.named(format!("n{number}")).unwrap().wait_timeout(ms(30));
        // One that may try once passes the gate as well.
        tasks.spawn(
            async move { if number % 2 == 0 { lock.acquire().await } else { lock.try_acquire().await } },
        );
    }
    sleep(ms(10)).await;
    assert_eq!(asked(&world), 256);
    sleep(ms(20)).await;
    assert_eq!(asked(&world), 512);
    let mut refused = 0;
    while let Some(result) = tasks.join_next().await {
        refused += usize::from(result.unwrap().is_err());
    }
    // The last 88 get their turn at 40 ms: too late for those who wait for 30 ms, in time for single tries.
    assert_eq!((refused, asked(&world)), (44, 556));
}

/// Goal: clients that want many names do not send more votes at the same moment than others do.
#[tokio::test(start_paused = true)]
async fn each_name_of_a_set_counts_as_an_attempt() {
    let world = World::of(3);
    world.break_nodes(3, &Fault::Slow(ms(20)));
    let locker = world.locker();
    let mut tasks = JoinSet::new();
    for number in 0..100 {
        let names = (0..16).map(|name| format!("n{number}:{name}"));
        let lock = locker.all(names).unwrap().wait_timeout(ms(10_000));
        tasks.spawn(async move { lock.acquire().await });
    }
    sleep(ms(10)).await;
    let asked = world.nodes[0].verbs().iter().filter(|verb| **verb == "acquire").count();
    assert_eq!(asked, 256);
    while let Some(result) = tasks.join_next().await {
        drop(result.unwrap().unwrap());
    }
}

/// Redisson: the lease of a lock must not grow with the rounds that it took to get it.
#[tokio::test(start_paused = true)]
async fn every_attempt_asks_for_the_same_ttl_and_the_last_is_kept_alive() {
    let world = World::of(3);
    let holder = world.lock("a").acquire().await.unwrap();
    let lock = world.lock("a").wait_timeout(ms(60_000));
    let waiter = tokio::spawn(async move { lock.acquire().await });
    sleep(ms(5_000)).await;
    assert!(matches!(holder.release().await, ReleaseOutcome::Released));
    let guard = end_of(waiter).await.unwrap();
    let attempts = world.count_events(|event| matches!(event, Event::Refused { .. }));
    assert!(attempts > 3, "{attempts}");
    for command in world.nodes[0].received() {
        assert!(!matches!(command, Command::Acquire(vote) if vote.ttl != TTL));
    }
    assert!(guard.remaining() <= TTL);
    // RedLock.net 97: what was waited for is renewed like any other.
    sleep(5 * TTL).await;
    assert!(guard.is_held());
}

/// redlock-py: a zero is a zero and not the default.
#[tokio::test(start_paused = true)]
async fn a_wait_of_zero_is_one_look() {
    let world = World::of(3);
    let _holder = world.lock("a").acquire().await.unwrap();
    let start = Instant::now();
    let refused = world.lock("a").wait_timeout(Duration::ZERO).acquire().await;
    assert!(matches!(refused, Err(AcquireError::Held { .. })), "{refused:?}");
    assert!(start.elapsed() <= NODE_TIMEOUT, "{:?}", start.elapsed());
    drop(world.lock("b").wait_timeout(Duration::ZERO).acquire().await.unwrap());
}
