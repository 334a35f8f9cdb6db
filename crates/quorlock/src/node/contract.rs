//! The checks that every node inside this crate must pass, with a clock that the test controls.

use super::*;
use crate::context::clock::Clock;
use crate::context::mutex::Mutex;
use crate::quorum::round::Round;
use quorlock_core::{Fence, Moment, NodeSet, Owner, StoredLock, Token, Wall};
use std::pin::Pin;

pub(crate) const TTL: Duration = Duration::from_secs(10);

/// A boot clock that moves only when a test advances it.
#[derive(Debug, Default)]
pub(crate) struct HandClock(Mutex<Duration>);

impl HandClock {
    pub(crate) fn advance(&self, span: Duration) {
        *self.0.lock() += span;
    }
}

impl Clock for HandClock {
    fn now(&self) -> Moment {
        Moment::from_boot(Duration::from_secs(1_000) + *self.0.lock())
    }

    fn wall_time(&self) -> std::time::SystemTime {
        Wall::from_micros(1).into()
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn token(number: u8) -> Token {
    Token::from_random([number; 16])
}

pub(crate) fn acquire(text: &str, holder: u8, proposal: u64, ttl: Duration, tied: bool) -> Command {
    let owner =
        Owner { who: format!("ann{holder}@web"), pid: 7, since: Wall::from_micros(5).into(), reason: None };
    Command::Acquire(Acquire {
        name: name(text),
        token: token(holder),
        proposal: Fence::new(proposal),
        label: StoredLock::label(&owner),
        ttl,
        tied,
        mode: quorlock_core::Mode::Exclusive,
        kind: AcquireKind::Vote,
    })
}

pub(crate) fn stamp(text: &str, holder: u8, fence: u64) -> Command {
    let (name, token) = (name(text), token(holder));
    Command::Stamp { name, token, at_least: Fence::new(fence) }
}

pub(crate) fn extend(text: &str, holder: u8, ttl: Duration, tied: bool) -> Command {
    let (name, token) = (name(text), token(holder));
    let (tie, mode) = (if tied { Tie::Here } else { Tie::Loose }, quorlock_core::Mode::Exclusive);
    Command::Extend { name, token, ttl, tie, mode, may_be_shared: false }
}

pub(crate) fn release(text: &str, holder: u8) -> Command {
    let (name, token) = (name(text), token(holder));
    Command::Release {
        name,
        token,
        quiet: false,
        stored_after_token: None,
        may_be_shared: false,
        forced: false,
    }
}

/// A round that is boxed, so that tests need not pin it.
#[derive(Debug)]
pub(crate) struct TestRound(Pin<Box<Round>>);

impl TestRound {
    pub(crate) fn send(
        nodes: &[Arc<dyn Node>],
        to: NodeSet,
        command: Command,
        timeout: Duration,
        wake_at: WakeThreshold,
    ) -> Self {
        Self(Box::pin(Round::send(nodes, to, command.into(), timeout, wake_at)))
    }

    pub(crate) async fn next(&mut self) -> Option<(usize, Reply)> {
        self.0.as_mut().next().await
    }
}

/// The reply in short, for example `raised`, `taken` or `stamped 9`.
pub(crate) async fn ask(node: &Arc<dyn Node>, command: &Command) -> String {
    let nodes = [node.clone()];
    let mut round = TestRound::send(
        &nodes,
        NodeSet::first(1),
        command.clone(),
        Duration::from_secs(60),
        WakeThreshold::ONE,
    );
    match round.next().await.unwrap().1 {
        Reply::Done(Done::Raised) => "raised".to_owned(),
        Reply::Done(Done::Unraised { counter: Some(counter) }) => format!("unraised {counter}"),
        Reply::Done(Done::Unraised { counter: None }) => "unraised".to_owned(),
        Reply::Done(Done::Stamped { to }) => format!("stamped {to}"),
        Reply::Done(Done::StampedUnevenly { highest }) => format!("stamped up to {highest}"),
        Reply::Done(Done::Slots(view)) => {
            let taken: String = view.taken.iter().map(|taken| if *taken { '1' } else { '0' }).collect();
            let recorded = view.recorded.map_or("no".to_owned(), |recorded| recorded.to_string());
            let refused = view.refused.map(|refused| format!(", refused {}", refused.count));
            format!("{recorded} slots{}, taken {taken}", refused.unwrap_or_default())
        }
        Reply::Done(Done::Plain | Done::Unawaited) => "done".to_owned(),
        Reply::Done(Done::Seen(view)) => short(&view),
        Reply::Denied(Denied::Gone) => "gone".to_owned(),
        Reply::Denied(Denied::Taken) => "taken".to_owned(),
        Reply::Failed(error) => format!("failed: {error}"),
    }
}

pub(crate) async fn inspect(node: &Arc<dyn Node>, text: &str) -> String {
    ask(node, &Command::Inspect { name: name(text) }).await
}

fn short(view: &View) -> String {
    let counter = view.counter.map_or("none".to_owned(), |c| c.to_string());
    match &view.content {
        Content::Free => format!("free, counter {counter}"),
        Content::Lock(stored) => format!(
            "{} fence {} left {} counter {counter}",
            stored.owner.who,
            stored.fence,
            // To the next five seconds: some nodes count whole ones, and a loaded machine may need some.
            view.left.unwrap().as_secs().next_multiple_of(5)
        ),
        Content::Shared(readers) => {
            let readers: Vec<String> =
                readers.iter().map(|reader| format!("{} fence {}", reader.owner.who, reader.fence)).collect();
            format!("shared by {} counter {counter}", readers.join(", "))
        }
        Content::Foreign(text) => format!("foreign {text}"),
    }
}

/// Runs every check on a node of its own.
pub(crate) async fn contract(make: impl Fn(Arc<HandClock>) -> Arc<dyn Node>) {
    let fresh = || {
        let clock = Arc::new(HandClock::default());
        (make(clock.clone()), clock)
    };
    let (node, clock) = fresh();
    contract_without_time(&node, Losers::Raise, Unraised::WithCounter).await;
    extending_never_shortens_and_time_ends_a_hold(&node, &clock).await;
    super::contract_modes::a_repair_makes_a_hold_exclusive_where_its_upgrade_was_missed(&node).await;
    super::contract_modes::each_shared_holder_has_an_end_of_its_own(&node, &clock).await;
}

/// What an acquire that is refused does to the counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Losers {
    Raise,
    /// On a node that is never one of several.
    #[cfg_attr(not(any(feature = "consul", feature = "etcd", feature = "zookeeper")), allow(dead_code))]
    LeaveIt,
}

/// The answer to an acquire that takes the name and does not raise the counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unraised {
    WithCounter,
    /// Where reading the counter would cost more than the stamp that follows.
    Alone,
}

/// The checks that need no clock, on a node that knows none of their names.
pub(crate) async fn contract_without_time(node: &Arc<dyn Node>, losers: Losers, unraised: Unraised) {
    a_free_name_is_taken_once_and_the_counter_rises_for_losers_too(node, losers, unraised).await;
    only_the_holder_can_stamp_extend_and_release(node).await;
    a_stamp_raises_strictly_and_is_stored(node).await;
    commands_take_effect_in_their_order(node).await;
    a_release_notifies_the_watchers(node).await;
    super::contract_modes::contract_of_modes(node).await;
}

async fn a_free_name_is_taken_once_and_the_counter_rises_for_losers_too(
    node: &Arc<dyn Node>,
    losers: Losers,
    unraised: Unraised,
) {
    let highest = if losers == Losers::Raise { 60 } else { 50 };
    assert_eq!(inspect(node, "a").await, "free, counter none");
    assert_eq!(ask(node, &release("a", 1)).await, "gone");
    assert_eq!(ask(node, &acquire("a", 1, 50, TTL, false)).await, "raised");
    assert_eq!(inspect(node, "a").await, "ann1@web fence 50 left 10 counter 50");
    assert_eq!(ask(node, &acquire("a", 2, 60, TTL, false)).await, "taken");
    assert_eq!(ask(node, &acquire("a", 2, 55, TTL, false)).await, "taken");
    assert_eq!(inspect(node, "a").await, format!("ann1@web fence 50 left 10 counter {highest}"));
    assert_eq!(ask(node, &release("a", 1)).await, "done");
    assert_eq!(inspect(node, "a").await, format!("free, counter {highest}"));
    let again = acquire("a", 2, highest, TTL, false);
    let expected = match unraised {
        Unraised::WithCounter => format!("unraised {highest}"),
        Unraised::Alone => "unraised".to_owned(),
    };
    assert_eq!(ask(node, &again).await, expected);
    assert_eq!(inspect(node, "b").await, "free, counter none", "names are apart");
}

async fn only_the_holder_can_stamp_extend_and_release(node: &Arc<dyn Node>) {
    for command in [stamp("owned", 1, 9), extend("owned", 1, TTL, false), release("owned", 1)] {
        assert_eq!(ask(node, &command).await, "gone");
    }
    ask(node, &acquire("owned", 1, 5, TTL, false)).await;
    for command in [stamp("owned", 2, 9), extend("owned", 2, 2 * TTL, false), release("owned", 2)] {
        assert_eq!(ask(node, &command).await, "taken");
    }
    assert_eq!(inspect(node, "owned").await, "ann1@web fence 5 left 10 counter 5");
    assert_eq!(ask(node, &release("owned", 1)).await, "done");
    assert_eq!(ask(node, &release("owned", 1)).await, "gone");
}

async fn a_stamp_raises_strictly_and_is_stored(node: &Arc<dyn Node>) {
    ask(node, &acquire("stamped", 1, 5, TTL, false)).await;
    assert_eq!(ask(node, &stamp("stamped", 1, 3)).await, "stamped 6");
    assert_eq!(ask(node, &stamp("stamped", 1, 8)).await, "stamped 8");
    assert_eq!(ask(node, &stamp("stamped", 1, 8)).await, "stamped 9");
    assert_eq!(inspect(node, "stamped").await, "ann1@web fence 9 left 10 counter 9");
    let last = Fence::MAX.get();
    assert_eq!(ask(node, &stamp("stamped", 1, last)).await, format!("stamped {last}"));
    assert!(ask(node, &stamp("stamped", 1, 1)).await.contains("used up"));
}

async fn extending_never_shortens_and_time_ends_a_hold(node: &Arc<dyn Node>, clock: &HandClock) {
    ask(node, &acquire("timed", 1, 5, TTL, false)).await;
    assert_eq!(ask(node, &extend("timed", 1, TTL / 2, false)).await, "done");
    assert_eq!(inspect(node, "timed").await, "ann1@web fence 5 left 10 counter 5");
    clock.advance(TTL / 2);
    assert_eq!(ask(node, &extend("timed", 1, TTL, false)).await, "done");
    assert_eq!(inspect(node, "timed").await, "ann1@web fence 5 left 10 counter 5");
    clock.advance(TTL - Duration::from_nanos(1));
    assert_eq!(ask(node, &acquire("timed", 2, 6, TTL, false)).await, "taken");
    clock.advance(Duration::from_nanos(1));
    assert_eq!(inspect(node, "timed").await, "free, counter 6");
    assert_eq!(ask(node, &extend("timed", 1, TTL, false)).await, "gone");
    assert_eq!(ask(node, &acquire("timed", 2, 7, TTL, false)).await, "raised");
    assert_eq!(ask(node, &release("timed", 1)).await, "taken");
}

async fn commands_take_effect_in_their_order(node: &Arc<dyn Node>) {
    let nodes = [node.clone()];
    // Each attempt has a token of its own, as in a locker.
    for attempt in 1..100 {
        let acquire = acquire("order", attempt, u64::from(attempt), TTL, false);
        crate::quorum::round::send_without_reply(&nodes, NodeSet::first(1), acquire);
        crate::quorum::round::send_without_reply(&nodes, NodeSet::first(1), release("order", attempt));
    }
    assert_eq!(inspect(node, "order").await, "free, counter 99");
}

async fn a_release_notifies_the_watchers(node: &Arc<dyn Node>) {
    let (wakeup, other) = (Wakeup::new(), Wakeup::new());
    node.watch(&name("released"), &wakeup);
    node.watch(&name("other"), &other);
    ask(node, &acquire("other", 1, 5, TTL, false)).await;
    ask(node, &acquire("released", 1, 5, TTL, false)).await;
    ask(node, &release("released", 1)).await;
    let notified = tokio::time::timeout(Duration::from_secs(60), wakeup.notified()).await;
    notified.expect("a release notifies");
    node.unwatch(&name("released"));
    node.unwatch(&name("other"));
}

#[tokio::test]
async fn the_memory_node_keeps_the_contract() {
    contract(|clock| Arc::new(MemoryNode::new("m", clock))).await;
    contract(|clock| Arc::new(MemoryNode::shared("contract", clock))).await;
}

#[tokio::test]
async fn the_file_node_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    contract(|clock| {
        let ctx = crate::context::Context { clock, ..Default::default() };
        Arc::new(FileNode::open(&crate::node::url::Directory::at(dir.path()), ctx).unwrap())
    })
    .await;
}
