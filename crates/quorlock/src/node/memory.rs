//! The memory node: names kept inside this process, for users' own tests.

use crate::context::clock::Clock;
use crate::context::mutex::Mutex;
use crate::node::record::{Place, Record};
use crate::node::{
    BoxFuture, Command, Denied, Facts, Health, Names, Node, NodeError, Reply, Request, Wakeup,
};
use quorlock_core::{Name, Token};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};

/// A node inside this process. It answers at once and forgets everything when the last handle goes.
///
/// Fence counters are never dropped before that, so at most [`MemoryNode::MOST_NAMES`] different names can be
/// locked; one more fails with [`NodeError::OutOfMemory`].
#[derive(Debug)]
pub struct MemoryNode {
    id: Arc<str>,
    /// Tells the watches of this handle from those of others on the same shelf.
    handle: u64,
    shelf: Arc<Shelf>,
}

impl MemoryNode {
    /// The most names that one node keeps.
    pub const MOST_NAMES: usize = 1_000_000;
    /// The most locks that were taken by force of which it refuses to be refilled.
    const MOST_TAKEN: usize = 1024;

    /// A node of its own, judged on `clock`.
    pub fn new(id: impl Into<Arc<str>>, clock: Arc<dyn Clock>) -> Self {
        Self::on(id.into(), Arc::new(Shelf::new(clock)))
    }

    /// The process-wide node `label`: every handle with that label is the same voter. Who comes first brings the
    /// clock.
    pub fn shared(label: &str, clock: Arc<dyn Clock>) -> Self {
        static SHELVES: Mutex<BTreeMap<String, Weak<Shelf>>> = Mutex::new(BTreeMap::new());
        let mut shelves = SHELVES.lock();
        shelves.retain(|_, shelf| shelf.strong_count() > 0);
        let shelf = shelves.get(label).and_then(Weak::upgrade).unwrap_or_else(|| {
            let shelf = Arc::new(Shelf::new(clock));
            shelves.insert(label.to_owned(), Arc::downgrade(&shelf));
            shelf
        });
        Self::on(format!("memory:{label}").into(), shelf)
    }

    fn on(id: Arc<str>, shelf: Arc<Shelf>) -> Self {
        static HANDLES: AtomicU64 = AtomicU64::new(0);
        Self { id, handle: HANDLES.fetch_add(1, Ordering::Relaxed), shelf }
    }
}

impl Node for MemoryNode {
    fn id(&self) -> &str {
        &self.id
    }

    fn send(&self, request: Request) {
        let reply = self.shelf.execute(request.command());
        request.answer(reply);
    }

    fn watch(&self, name: &Name, wakeup: &Wakeup) {
        let mut kept = self.shelf.lock();
        let wakeups = kept.wakeups.entry(name.clone()).or_default();
        wakeups.insert(self.handle, wakeup.clone());
    }

    fn unwatch(&self, name: &Name) {
        let mut kept = self.shelf.lock();
        if let Entry::Occupied(mut wakeups) = kept.wakeups.entry(name.clone()) {
            wakeups.get_mut().remove(&self.handle);
            if wakeups.get().is_empty() {
                wakeups.remove();
            }
        }
    }

    fn names(&self) -> BoxFuture<'_, Result<Names, NodeError>> {
        let names = Names::new(self.shelf.lock().records.keys().cloned());
        Box::pin(std::future::ready(Ok(names)))
    }

    fn examine(&self) -> BoxFuture<'_, Result<Facts, NodeError>> {
        Box::pin(std::future::ready(Ok(Facts::Process)))
    }

    fn health(&self) -> Health {
        Health { version: Some("memory".to_owned()), ..Health::default() }
    }
}

impl Drop for MemoryNode {
    fn drop(&mut self) {
        self.shelf.lock().wakeups.retain(|_, wakeups| {
            wakeups.remove(&self.handle);
            !wakeups.is_empty()
        });
    }
}

/// What all handles of one node share.
#[derive(Debug)]
struct Shelf {
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    records: BTreeMap<Name, Record>,
    /// For each watched name the bell of each handle.
    wakeups: BTreeMap<Name, BTreeMap<u64, Wakeup>>,
    /// Tokens of locks that were taken from their holders by force, oldest first.
    taken: VecDeque<Token>,
}

impl Shelf {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, kept: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }

    fn execute(&self, command: &Command) -> Reply {
        let name = command.name();
        let mut kept = self.lock();
        // Read under the lock, so that commands and moments have the same order.
        let now = self.clock.now();
        let place = Place::default();
        if kept.refuses(command) {
            return Reply::Denied(Denied::Taken);
        }
        let Some(record) = kept.records.get_mut(name) else {
            return kept.execute_first(command, &|record| record.execute(command, now, &place));
        };
        record.hold.take_if(|hold| hold.has_lapsed(now, place.boot));
        let held = record.hold.is_some();
        let reply = record.execute(command, now, &place);
        if held && record.hold.is_none() {
            kept.wakeups.get(name).into_iter().flatten().for_each(|(_, wakeup)| wakeup.notify());
        }
        reply
    }
}

impl Kept {
    /// Whether `command` would bring a lock back that was taken from its holder by force.
    fn refuses(&mut self, command: &Command) -> bool {
        match command {
            Command::Release { token, forced: true, .. } => {
                if self.taken.len() >= MemoryNode::MOST_TAKEN {
                    self.taken.pop_front();
                }
                self.taken.push_back(*token);
                false
            }
            Command::Acquire(acquire) => acquire.repair && self.taken.contains(&acquire.token),
            _ => false,
        }
    }

    /// Executes a command for a name that has no record; only an acquire makes one.
    fn execute_first(&mut self, command: &Command, execute: &dyn Fn(&mut Record) -> Reply) -> Reply {
        let mut record = Record::default();
        let reply = execute(&mut record);
        if record == Record::default() {
            return reply;
        }
        if self.records.len() >= MemoryNode::MOST_NAMES {
            return Reply::failed(NodeError::OutOfMemory {
                message: format!("it keeps {} names already", MemoryNode::MOST_NAMES).into(),
            });
        }
        self.records.insert(command.name().clone(), record);
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::clock::SystemClock;
    use crate::node::contract::{TTL, acquire, ask, name, release};
    use std::task::{Context, Poll, Waker};

    fn shared(label: &str) -> MemoryNode {
        MemoryNode::shared(label, Arc::new(SystemClock))
    }

    fn rang(wakeup: &Wakeup) -> bool {
        let mut heard = Box::pin(wakeup.notified());
        let poll = heard.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        poll == Poll::Ready(())
    }

    #[tokio::test]
    async fn one_label_is_one_node_until_its_last_handle_goes() {
        let (a, b): (Arc<dyn Node>, Arc<dyn Node>) = (Arc::new(shared("one")), Arc::new(shared("one")));
        assert_eq!(a.id(), "memory:one");
        assert_eq!(ask(&a, &acquire("x", 1, 5, TTL, false)).await, "raised");
        assert_eq!(ask(&b, &acquire("x", 2, 6, TTL, false)).await, "taken");
        drop(a);
        assert_eq!(ask(&b, &acquire("x", 2, 7, TTL, false)).await, "taken");
        drop(b);
        let anew: Arc<dyn Node> = Arc::new(shared("one"));
        assert_eq!(ask(&anew, &acquire("x", 2, 1, TTL, false)).await, "raised");
    }

    #[tokio::test]
    async fn every_handle_that_watches_is_rung_and_none_that_stopped() {
        let (a, b, c) = (shared("bells"), shared("bells"), shared("bells"));
        let wakeups = [Wakeup::new(), Wakeup::new(), Wakeup::new()];
        for (node, wakeup) in [&a, &b, &c].into_iter().zip(&wakeups) {
            node.watch(&name("x"), wakeup);
        }
        b.unwatch(&name("x"));
        drop(c);
        let a: Arc<dyn Node> = Arc::new(a);
        ask(&a, &acquire("x", 1, 5, TTL, false)).await;
        assert!(!wakeups.iter().any(rang), "nothing was released");
        ask(&a, &release("x", 1)).await;
        assert_eq!(wakeups.each_ref().map(rang), [true, false, false]);
    }
}
