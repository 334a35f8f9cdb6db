//! A locker on memory nodes that can be broken, in a world whose time is paused.

use quorlock::node::MemoryNode;
use quorlock::{Builder, Event, Lease, Lock, Locker, Lost, RestartGuard};
use quorlock_testkit::{Fault, FaultyNode, TestClock, within};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Longer than anything here takes, be the clock paused or not.
pub const LONG: Duration = Duration::from_secs(120);

/// The loss of `held`, which must come.
pub async fn loss_of(held: &Lease) -> Lost {
    within("the loss is announced", LONG, held.lost()).await
}

/// What a task of the test returned, which must come.
pub async fn end_of<T>(task: JoinHandle<T>) -> T {
    within("the task ends", LONG, task).await.unwrap()
}

pub const TTL: Duration = Duration::from_secs(10);
pub const NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// Nodes, their faults and a clock. Several lockers may share them.
pub struct World {
    pub clock: Arc<TestClock>,
    pub nodes: Vec<Arc<FaultyNode>>,
    pub events: Arc<Mutex<Vec<Event>>>,
}

impl World {
    pub fn of(nodes: usize) -> Self {
        let clock = TestClock::start();
        let node = |number| FaultyNode::new(MemoryNode::new(format!("node{number}"), clock.clone()));
        Self { nodes: (1..=nodes).map(node).collect(), clock, events: Arc::default() }
    }

    pub fn builder(&self) -> Builder {
        self.builder_with_clock(self.clock.clone())
    }

    pub fn builder_with_clock(&self, clock: Arc<TestClock>) -> Builder {
        let events = self.events.clone();
        let builder = Locker::builder()
            .ttl(TTL)
            .clock(clock)
            .restart_guard(RestartGuard::Off)
            .observer(move |event: &Event| events.lock().unwrap().push(event.clone()));
        self.nodes.iter().fold(builder, |builder, node| builder.node(node.clone()))
    }

    pub fn locker(&self) -> Locker {
        self.builder().build().unwrap()
    }

    pub fn lock(&self, name: &str) -> Lock {
        self.locker().named(name).unwrap()
    }

    pub fn break_nodes(&self, count: usize, fault: &Fault) {
        for node in &self.nodes[..count] {
            node.set(fault.clone());
        }
    }

    /// On how many nodes a client has `name`.
    pub async fn copies(&self, name: &str) -> usize {
        let seen = self.lock(name).inspect().await.unwrap();
        let free = quorlock::node::Content::Free;
        seen.nodes.iter().filter(|node| node.view.as_ref().is_ok_and(|view| view.content != free)).count()
    }

    pub fn count_events(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.lock().unwrap().iter().filter(|event| wanted(event)).count()
    }
}
