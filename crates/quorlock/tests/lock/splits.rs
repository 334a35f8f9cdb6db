//! Single tries that split the votes: one client gets the lock, and the others learn that it has it.

use crate::world::{NODE_TIMEOUT, TTL, World, end_of, ms};
use quorlock::node::{BoxFuture, Command, Health, MemoryNode, Names, Node, NodeError, Request, Wakeup};
use quorlock::{AcquireError, Entropy, Event, GaveUpReason, Guard, Holder, Lock, Locker, Name, RestartGuard};
use quorlock_testkit::{Fault, TestClock};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// A node at the other end of a long wire: commands and replies each take `delay`, and stay in order.
#[derive(Debug)]
struct Distant {
    node: Arc<MemoryNode>,
    wire: mpsc::UnboundedSender<(Instant, Request)>,
}

impl Distant {
    fn new(node: Arc<MemoryNode>, delay: Duration) -> Self {
        let (wire, mut sent) = mpsc::unbounded_channel::<(Instant, Request)>();
        let end = node.clone();
        tokio::spawn(async move {
            while let Some((at, request)) = sent.recv().await {
                sleep_until(at + delay).await;
                let (relay, reply) = Request::channel(request.command().clone());
                end.send(relay);
                tokio::spawn(async move {
                    let reply = reply.await;
                    sleep_until(at + 2 * delay).await;
                    request.answer(reply);
                });
            }
        });
        Self { node, wire }
    }
}

impl Node for Distant {
    fn id(&self) -> &str {
        self.node.id()
    }

    fn send(&self, request: Request) {
        let _ = self.wire.send((Instant::now(), request));
    }

    fn watch(&self, name: &Name, wakeup: &Wakeup) {
        self.node.watch(name, wakeup);
    }

    fn unwatch(&self, name: &Name) {
        self.node.unwatch(name);
    }

    fn wait_connected(&self) -> BoxFuture<'_, ()> {
        self.node.wait_connected()
    }

    fn names(&self) -> BoxFuture<'_, Result<Names, NodeError>> {
        self.node.names()
    }

    fn health(&self) -> Health {
        self.node.health()
    }
}

/// One locker in each of `zones` zones, with a node next to it; the nodes of other zones are `delay` away.
fn lockers(zones: usize, delay: Duration) -> Vec<Locker> {
    let clock = TestClock::start();
    let node = |number| Arc::new(MemoryNode::new(format!("node{number}"), clock.clone()));
    let nodes: Vec<Arc<MemoryNode>> = (0..zones).map(node).collect();
    let locker = |zone: usize| {
        let builder = Locker::builder().ttl(TTL).clock(clock.clone()).restart_guard(RestartGuard::Off);
        let away = |number| if number == zone { Duration::ZERO } else { delay };
        let nodes = nodes.iter().enumerate();
        nodes
            .fold(builder, |builder, (number, node)| {
                builder.node(Arc::new(Distant::new(node.clone(), away(number))))
            })
            .build()
            .unwrap()
    };
    (0..zones).map(locker).collect()
}

/// All try `name` at the same moment.
async fn all_try(lockers: &[Locker], name: &str) -> Vec<Result<Guard, AcquireError>> {
    let tries: Vec<_> = lockers
        .iter()
        .map(|locker| {
            let lock: Lock = locker.named(name).unwrap();
            tokio::spawn(async move { lock.try_acquire().await })
        })
        .collect();
    let mut results = Vec::new();
    for tried in tries {
        results.push(end_of(tried).await);
    }
    results
}

/// Goal: of clients that try once at the same moment one gets the lock, and each other one names it as the holder.
#[tokio::test(start_paused = true)]
async fn of_clients_that_try_at_the_same_moment_one_gets_the_lock() {
    for (zones, delay) in [(3, ms(20)), (3, ms(5)), (3, ms(1)), (5, ms(20)), (2, ms(20))] {
        let lockers = lockers(zones, delay);
        for trial in 0..50 {
            let start = Instant::now();
            let results = all_try(&lockers, &format!("job{trial}")).await;
            let holders: Vec<&Guard> = results.iter().flatten().collect();
            assert_eq!(holders.len(), 1, "{zones} zones, {delay:?}, trial {trial}: {results:?}");
            for refused in results.iter().filter_map(|result| result.as_ref().err()) {
                let AcquireError::Held { holder: Holder::Owner { token, .. }, .. } = refused else {
                    panic!("{refused:?}")
                };
                assert_eq!(*token, holders[0].token());
            }
            assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
        }
    }
}

/// Goal: values of which none has a majority, and which never go away, end a try with an outcome of its own.
#[tokio::test(start_paused = true)]
async fn a_name_that_no_client_ever_wins_is_contended_after_bounded_tries() {
    let world = World::of(3);
    split_for_good(&world).await;
    let start = Instant::now();
    let refused = world.lock("a").try_acquire().await.unwrap_err();
    let AcquireError::Contended { attempts, .. } = refused else { panic!("{refused:?}") };
    assert!(refused.to_string().contains("contended: no client has a majority"), "{refused}");
    assert!((2..=16).contains(&attempts), "{attempts}");
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    let refusals = world.count_events(|event| matches!(event, Event::Refused { .. }));
    assert_eq!(u32::try_from(refusals).unwrap(), attempts);
    let gave_up = |event: &Event| matches!(event, Event::GaveUp { reason: GaveUpReason::Contended, .. });
    assert_eq!(world.count_events(gave_up), 1);
}

/// A source that always gives the same byte: all zeros choose the shortest delay, all ones the longest.
#[derive(Debug)]
struct Always(u8);

impl Entropy for Always {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

/// Three clients have one vote each, for good.
async fn split_for_good(world: &World) {
    for node in &world.nodes {
        let alone = Locker::builder().ttl(TTL).clock(world.clock.clone()).restart_guard(RestartGuard::Off);
        let alone = alone.node(node.clone()).build().unwrap();
        std::mem::forget(alone.named("a").unwrap().acquire().await.unwrap());
    }
}

/// Goal: the number of attempts is no bound on time where delays are long, so there is another.
#[tokio::test(start_paused = true)]
async fn a_try_ends_after_five_seconds_however_long_its_delays_are() {
    let world = World::of(3);
    split_for_good(&world).await;
    let lock = world.builder().entropy(Arc::new(Always(0xff))).build().unwrap().named("a").unwrap();
    let start = Instant::now();
    let refused = lock.try_acquire().await.unwrap_err();
    assert!(matches!(refused, AcquireError::Contended { attempts: 2..16, .. }), "{refused:?}");
    assert!(start.elapsed() <= ms(5_000) + NODE_TIMEOUT, "{:?}", start.elapsed());
}

/// Goal: clients that are in step get out of it, because each waits for longer than an attempt takes.
#[tokio::test(start_paused = true)]
async fn the_delay_after_a_split_is_longer_than_the_attempt_took() {
    let world = World::of(3);
    split_for_good(&world).await;
    world.break_nodes(3, &Fault::Slow(ms(40)));
    let refusals = Arc::new(Mutex::new(Vec::new()));
    let seen = refusals.clone();
    let note = move |event: &Event| {
        if matches!(event, Event::Refused { .. }) {
            seen.lock().unwrap().push(Instant::now());
        }
    };
    let builder = world.builder().entropy(Arc::new(Always(0))).observer(note);
    assert!(builder.build().unwrap().named("a").unwrap().try_acquire().await.is_err());
    let refusals = refusals.lock().unwrap();
    assert!(refusals.len() > 2, "{refusals:?}");
    for pair in refusals.windows(2) {
        // A look, the delay, and the next attempt, of 40 ms each.
        assert!(pair[1] - pair[0] >= ms(120), "{:?}", pair[1] - pair[0]);
    }
}

/// Goal: who waits and runs out of time while no client has a majority is not said to have met a holder.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_without_any_holder_is_contended_too() {
    let world = World::of(3);
    split_for_good(&world).await;
    let refused = world.lock("a").wait_timeout(ms(700)).acquire().await;
    assert!(matches!(refused, Err(AcquireError::Contended { .. })), "{refused:?}");
}

/// Goal: a lock that is held costs a single try one vote and one look, as before.
#[tokio::test(start_paused = true)]
async fn a_try_at_a_lock_that_is_held_makes_one_attempt_and_one_look() {
    let world = World::of(3);
    let _guard = world.lock("a").acquire().await.unwrap();
    let before = world.nodes[0].verbs().len();
    let start = Instant::now();
    assert!(matches!(world.lock("a").try_acquire().await, Err(AcquireError::Held { .. })));
    assert_eq!(world.nodes[0].verbs()[before..], ["acquire", "release", "inspect"]);
    assert!(start.elapsed() < ms(2), "{:?}", start.elapsed());
}

/// Goal: a holder that releases between the vote and the inspection leaves the lock to the client that tries.
#[tokio::test(start_paused = true)]
async fn a_holder_that_goes_between_vote_and_look_leaves_the_lock_to_the_try() {
    let world = World::of(3);
    let guard = Mutex::new(Some(world.lock("a").acquire().await.unwrap()));
    let go = move |event: &Event| {
        if matches!(event, Event::Refused { .. }) {
            drop(guard.lock().unwrap().take());
        }
    };
    let lock = world.builder().observer(go).build().unwrap().named("a").unwrap();
    assert!(lock.try_acquire().await.is_ok());
    let votes = world.nodes[0].received();
    let votes = votes.iter().filter(|command| matches!(command, Command::Acquire(_))).count();
    assert_eq!(votes, 3, "the holder's, and two of the try");
}
