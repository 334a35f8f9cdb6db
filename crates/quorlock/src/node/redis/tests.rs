//! The node against real servers.

mod contract;
mod hints;
mod memory;
mod order;
mod outages;
mod reconnecting;
mod refusals;
mod relay;
mod scripts;
mod server;
mod server_checks;
mod shapes;
mod speed;
mod streams;
mod unanswered;
mod votes;
mod young;

use crate::context::event::{Event, Observers};
use crate::context::mutex::Mutex;
use crate::context::{Context, RestartGuard};
use crate::node::contract::TestRound;
use crate::node::redis::RedisNode;
use crate::node::{Acquire, Command, Content, Node, NodeError, Reply, Request, View, WakeThreshold};
use quorlock_core::{Fence, Label, Moment, Name, NodeSet, Signature, Token, Wall};
use server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Long enough for a loaded machine, short enough for a test that fails.
const NODE_TIMEOUT: Duration = Duration::from_secs(10);

type Nodes = [Arc<dyn Node>; 1];

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn token(byte: u8) -> Token {
    Token::from_random([byte; 16])
}

fn acquire(lock: &str, by: u8, proposal: u64) -> Acquire {
    let signature = Signature::new("ann@web1", 42, Some("testing"));
    Acquire {
        name: name(lock),
        token: token(by),
        proposal: Fence::new(proposal),
        label: Label::new(Arc::new(signature), Wall::from_micros(1_763_240_000_000_000)),
        ttl: Duration::from_secs(20),
        tied: false,
        mode: quorlock_core::Mode::Exclusive,
        kind: crate::node::AcquireKind::Vote,
    }
}

fn vote(lock: &str, by: u8, proposal: u64) -> Command {
    Command::Acquire(acquire(lock, by, proposal))
}

fn release(lock: &str, by: u8) -> Command {
    Command::Release {
        name: name(lock),
        token: token(by),
        quiet: false,
        stored_after_token: None,
        may_be_shared: false,
        forced: false,
    }
}

fn inspect(lock: &str) -> Command {
    Command::Inspect { name: name(lock) }
}

/// Context for a test machine that may be slow, with the restart guard off.
fn calm() -> Context {
    Context {
        guard: RestartGuard::Off,
        node_timeout: Duration::from_secs(2),
        connect_timeout: Duration::from_secs(5),
        ..Context::default()
    }
}

fn guarded() -> Context {
    Context { guard: RestartGuard::Strict, ..calm() }
}

fn connect(url: &str, ctx: Context) -> Arc<RedisNode> {
    Arc::new(RedisNode::new(&url.parse().unwrap(), ctx).unwrap())
}

async fn ask(node: &Arc<RedisNode>, command: Command) -> Reply {
    let nodes: Nodes = [node.clone()];
    let mut round = TestRound::send(&nodes, NodeSet::first(1), command, NODE_TIMEOUT, WakeThreshold::ONE);
    round.next().await.unwrap().1
}

/// Sends without waiting for the answer.
fn post(node: &RedisNode, command: &Command) {
    node.send(Request::without_reply(command.clone()));
}

async fn view(node: &Arc<RedisNode>, lock: &str) -> View {
    match ask(node, inspect(lock)).await {
        Reply::Done(crate::node::Done::Seen(view)) => *view,
        other => panic!("no view: {other:?}"),
    }
}

fn cause(reply: Reply) -> NodeError {
    match reply {
        Reply::Failed(cause) => *cause,
        other => panic!("not failed: {other:?}"),
    }
}

/// Polls until `condition` holds.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + NODE_TIMEOUT;
    while !condition() {
        assert!(tokio::time::Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A clock that can be set ahead of the machine's.
#[derive(Debug, Default)]
struct Ahead(AtomicU64);

impl Ahead {
    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}

impl crate::Clock for Ahead {
    fn now(&self) -> Moment {
        crate::SystemClock.now() + Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn wall_time(&self) -> std::time::SystemTime {
        crate::SystemClock.wall_time()
    }
}

/// Everything that was observed.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<Event>>>);

impl Diary {
    fn observe(&self, ctx: Context) -> Context {
        let pages = self.0.clone();
        let observer = move |event: &Event| pages.lock().push(event.clone());
        Context { observers: Observers::new(vec![Arc::new(observer)]), ..ctx }
    }

    fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.0.lock().iter().filter(|e| wanted(e)).count()
    }
}
