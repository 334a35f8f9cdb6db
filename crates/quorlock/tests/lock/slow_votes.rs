//! Votes of one attempt that are far apart, on nodes that lose their memory in between.

use crate::world::{World, end_of, ms};
use quorlock::node::{BoxFuture, Health, MemoryNode, Names, Node, NodeError, Request, Wakeup};
use quorlock::{Builder, InjectedBug, Locker, Name, RestartGuard};
use quorlock_testkit::{Fault, FaultyNode, TestClock};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_millis(240);

/// The node that all clients share; it can lose its memory.
#[derive(Debug)]
struct Forgetful {
    clock: Arc<TestClock>,
    node: Mutex<Arc<MemoryNode>>,
}

impl Forgetful {
    fn new(clock: &Arc<TestClock>) -> Arc<Self> {
        let node = Mutex::new(Arc::new(MemoryNode::new("shared", clock.clone())));
        Arc::new(Self { clock: clock.clone(), node })
    }

    fn forget(&self) {
        *self.node.lock().unwrap() = Arc::new(MemoryNode::new("shared", self.clock.clone()));
    }
}

/// One client's way to such a node: commands arrive after `delay`, and so do their replies.
#[derive(Debug)]
struct Way {
    id: String,
    end: Arc<Forgetful>,
    delay: Duration,
}

impl Way {
    fn new(number: usize, end: &Arc<Forgetful>, delay: Duration) -> Self {
        Self { id: format!("node{number}"), end: end.clone(), delay }
    }
}

impl Node for Way {
    fn id(&self) -> &str {
        &self.id
    }

    fn send(&self, request: Request) {
        let (end, delay) = (self.end.clone(), self.delay);
        if delay.is_zero() {
            return end.node.lock().unwrap().send(request);
        }
        tokio::spawn(async move {
            sleep(delay).await;
            let (relay, reply) = Request::channel(request.command().clone());
            end.node.lock().unwrap().send(relay);
            sleep(delay).await;
            request.answer(reply.await);
        });
    }

    fn watch(&self, _: &Name, _: &Wakeup) {}

    fn unwatch(&self, _: &Name) {}

    fn names(&self) -> BoxFuture<'_, Result<Names, NodeError>> {
        Box::pin(std::future::ready(Ok(Names::default())))
    }

    fn health(&self) -> Health {
        Health::default()
    }
}

fn builder(clock: &Arc<TestClock>, nodes: impl IntoIterator<Item = Arc<dyn Node>>) -> Builder {
    let builder = Locker::builder().ttl(TTL).node_timeout(SLOW).clock(clock.clone());
    let builder = builder.restart_guard(RestartGuard::Off).watchdog(false);
    nodes.into_iter().fold(builder, Builder::node)
}

/// Goal: S1. A rival gets the vote of node 3. Node 3 forgets it, and the holder repairs it and extends there.
/// The holder's lock expires on node 2, which then votes for the rival, too. Returns how many hold the lock.
async fn holders_after_a_node_forgot_its_vote(inject: fn(Builder) -> Builder) -> usize {
    let clock = TestClock::start();
    let nodes = [1, 2, 3].map(|_| Forgetful::new(&clock));
    let fronts: [_; 3] =
        std::array::from_fn(|at| FaultyNode::new(Way::new(at + 1, &nodes[at], Duration::ZERO)));
    let holder = builder(&clock, fronts.each_ref().map(|front| -> Arc<dyn Node> { front.clone() }));
    let holder = holder.build().unwrap();
    let delays = [Duration::ZERO, ms(105), Duration::ZERO];
    let way = |at: usize| -> Arc<dyn Node> { Arc::new(Way::new(at + 1, &nodes[at], delays[at])) };
    let rival = inject(builder(&clock, [way(0), way(1), way(2)])).build().unwrap();

    let unreachable = || Fault::Broken(NodeError::Timeout { after: SLOW });
    fronts[2].set(unreachable());
    let guard = holder.named("a").unwrap().acquire().await.unwrap();
    fronts[1].set(unreachable());
    fronts[2].set(Fault::None);
    sleep(ms(900)).await;
    let attempt = tokio::spawn(async move { rival.named("a").unwrap().try_acquire().await });
    sleep(ms(5)).await;
    nodes[2].forget();
    assert!(guard.extend().await.is_err(), "one of three nodes is left, and repairs node 3");
    guard.extend().await.unwrap();
    let granted = end_of(attempt).await;
    usize::from(guard.is_held()) + usize::from(granted.is_ok_and(|rival| rival.is_held()))
}

#[tokio::test(start_paused = true)]
async fn a_vote_that_its_node_forgot_does_not_count_with_one_that_came_much_later() {
    assert_eq!(holders_after_a_node_forgot_its_vote(|builder| builder).await, 1);
    // Proves that the test finds it.
    let inject = |builder: Builder| builder.inject_bug(InjectedBug::SlowVotesCount);
    assert_eq!(holders_after_a_node_forgot_its_vote(inject).await, 2);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_asks_its_voters_again_only_if_their_votes_took_longer_than_50_ms() {
    for (delay, verbs) in [(ms(49), &["acquire"][..]), (ms(51), &["acquire", "extend"])] {
        let world = World::of(3);
        let lock = world.builder().ttl(TTL).node_timeout(SLOW).build().unwrap().named("a").unwrap();
        world.break_nodes(3, &Fault::Slow(delay));
        let guard = lock.watchdog(false).acquire().await.unwrap();
        assert_eq!(world.nodes[0].verbs(), verbs, "{delay:?}");
        assert!(guard.is_held());
    }
}

/// Goal: with one node no two votes can be far apart.
#[tokio::test(start_paused = true)]
async fn a_single_node_is_asked_once_however_slow_it_is() {
    let world = World::of(1);
    let lock = world.builder().ttl(TTL).node_timeout(SLOW).build().unwrap().named("a").unwrap();
    world.break_nodes(1, &Fault::Slow(ms(200)));
    let guard = lock.watchdog(false).acquire().await.unwrap();
    assert_eq!(world.nodes[0].verbs(), ["acquire"]);
    assert!(guard.is_held());
}
