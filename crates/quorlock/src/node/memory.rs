//! The memory node: names kept inside this process, for users' own tests.

use crate::context::clock::Clock;
use crate::context::mutex::Mutex;
use crate::node::record::{Place, Record, with_taken};
use crate::node::{
    BoxFuture, Command, Denied, Facts, Health, Names, Node, NodeError, Reply, Request, Wakeup,
};
use quorlock_core::{Moment, Name, Token};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};

/// A node inside this process. It answers at once and forgets everything when the last handle is dropped.
///
/// Fence counters are never dropped before that, so at most [`MemoryNode::MAX_NAMES`] different names can be
/// locked; one more fails with [`NodeError::OutOfMemory`].
#[derive(Debug)]
pub struct MemoryNode {
    id: Arc<str>,
    /// Distinguishes the watches of this handle from those of others that share the storage.
    handle: u64,
    storage: Arc<Storage>,
}

impl MemoryNode {
    /// The most names that one node keeps.
    pub const MAX_NAMES: usize = 1_000_000;
    /// The most tokens of locks released by force that it refuses to extend or repair.
    const MAX_TAKEN: usize = 1024;

    /// A node of its own, judged by `clock`.
    pub fn new(id: impl Into<Arc<str>>, clock: Arc<dyn Clock>) -> Self {
        Self::on(id.into(), Arc::new(Storage::new(clock)))
    }

    /// The process-wide node `label`: every handle with that label is the same voter. The first handle
    /// brings the clock.
    pub fn shared(label: &str, clock: Arc<dyn Clock>) -> Self {
        static STORAGES: Mutex<BTreeMap<String, Weak<Storage>>> = Mutex::new(BTreeMap::new());
        let mut storages = STORAGES.lock();
        storages.retain(|_, storage| storage.strong_count() > 0);
        let storage = storages.get(label).and_then(Weak::upgrade).unwrap_or_else(|| {
            let storage = Arc::new(Storage::new(clock));
            storages.insert(label.to_owned(), Arc::downgrade(&storage));
            storage
        });
        Self::on(format!("memory:{label}").into(), storage)
    }

    fn on(id: Arc<str>, storage: Arc<Storage>) -> Self {
        static HANDLES: AtomicU64 = AtomicU64::new(0);
        Self { id, handle: HANDLES.fetch_add(1, Ordering::Relaxed), storage }
    }
}

impl Node for MemoryNode {
    fn id(&self) -> &str {
        &self.id
    }

    fn send(&self, request: Request) {
        let reply = self.storage.execute(request.command());
        request.answer(reply);
    }

    fn watch(&self, name: &Name, wakeup: &Wakeup) {
        let mut state = self.storage.lock();
        let wakeups = state.wakeups.entry(name.clone()).or_default();
        wakeups.insert(self.handle, wakeup.clone());
    }

    fn unwatch(&self, name: &Name) {
        let mut state = self.storage.lock();
        if let Entry::Occupied(mut wakeups) = state.wakeups.entry(name.clone()) {
            wakeups.get_mut().remove(&self.handle);
            if wakeups.get().is_empty() {
                wakeups.remove();
            }
        }
    }

    fn names(&self) -> BoxFuture<'_, Result<Names, NodeError>> {
        let names = Names::new(self.storage.lock().records.keys().cloned());
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
        self.storage.lock().wakeups.retain(|_, wakeups| {
            wakeups.remove(&self.handle);
            !wakeups.is_empty()
        });
    }
}

/// What all handles of one node share.
#[derive(Debug)]
struct Storage {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<Name, Record>,
    /// For each watched name the wakeup of each handle.
    wakeups: BTreeMap<Name, BTreeMap<u64, Wakeup>>,
    /// Tokens of locks that were released by force, oldest first.
    taken: VecDeque<Token>,
}

impl Storage {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn execute(&self, command: &Command) -> Reply {
        let name = command.name();
        let mut state = self.lock();
        // Read under the lock, so that commands and moments have the same order.
        let now = self.clock.now();
        let place = Place::default();
        if state.refuses(command) {
            return Reply::Denied(Denied::Taken);
        }
        if let Command::Slots { count, .. } = command {
            let taken = (0..*count).map(|slot| state.is_taken(&Name::of_slot(name, slot), now)).collect();
            return with_taken(state.execute_slots(command, now), taken);
        }
        let Some(record) = state.records.get_mut(name) else {
            return state.execute_first(command, &|record| record.execute(command, now, &place));
        };
        record.drop_ended(|hold| hold.has_lapsed(now, place.boot));
        let held = record.is_held();
        let reply = record.execute(command, now, &place);
        let is_quiet = matches!(command, Command::Release { quiet: true, .. });
        if held && !record.is_held() && !is_quiet {
            state.notify(name);
        }
        reply
    }
}

impl State {
    /// Notifies the waiters of `name`, which was just freed.
    fn notify(&self, name: &Name) {
        self.wakeups.get(&name.topic()).into_iter().flatten().for_each(|(_, wakeup)| wakeup.notify());
    }

    fn is_taken(&self, name: &Name, now: Moment) -> bool {
        let holds = self.records.get(name).map(|record| record.holds.as_slice()).unwrap_or_default();
        holds.iter().any(|hold| !hold.has_lapsed(now, Place::default().boot))
    }

    /// Records how many slots a semaphore has.
    fn execute_slots(&mut self, command: &Command, now: Moment) -> Reply {
        match self.records.get_mut(command.name()) {
            Some(record) => record.execute(command, now, &Place::default()),
            None => self.execute_first(command, &|record| record.execute(command, now, &Place::default())),
        }
    }

    /// Whether `command` would keep or bring back a lock that was released by force.
    fn refuses(&mut self, command: &Command) -> bool {
        match command {
            Command::Release { token, forced: true, .. } => {
                if self.taken.len() >= MemoryNode::MAX_TAKEN {
                    self.taken.pop_front();
                }
                self.taken.push_back(*token);
                false
            }
            Command::Acquire(acquire) => acquire.is_repair() && self.taken.contains(&acquire.token),
            Command::Extend { token, .. } => self.taken.contains(token),
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
        if self.records.len() >= MemoryNode::MAX_NAMES {
            return Reply::failed(NodeError::OutOfMemory {
                message: format!("it keeps {} names already", MemoryNode::MAX_NAMES).into(),
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
    use crate::node::contract::{TTL, acquire, ask, extend, name, release};
    use std::task::{Context, Poll, Waker};

    fn shared(label: &str) -> MemoryNode {
        MemoryNode::shared(label, Arc::new(SystemClock))
    }

    fn is_notified(wakeup: &Wakeup) -> bool {
        let mut notified = Box::pin(wakeup.notified());
        let poll = notified.as_mut().poll(&mut Context::from_waker(Waker::noop()));
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

    /// Goal: a vote that arrives after the forced release of its lock does not keep it held.
    #[tokio::test]
    async fn a_lock_that_was_released_by_force_is_not_extended() {
        let node: Arc<dyn Node> = Arc::new(MemoryNode::new("m", Arc::new(SystemClock)));
        let mut forced = release("x", 1);
        let Command::Release { forced: is_forced, .. } = &mut forced else { unreachable!() };
        *is_forced = true;
        assert_eq!(ask(&node, &forced).await, "gone");
        assert_eq!(ask(&node, &acquire("x", 1, 5, TTL, false)).await, "raised");
        assert_eq!(ask(&node, &extend("x", 1, TTL, false)).await, "taken");
    }

    #[tokio::test]
    async fn every_handle_that_watches_is_notified_and_none_that_stopped() {
        let (a, b, c) = (shared("bells"), shared("bells"), shared("bells"));
        let wakeups = [Wakeup::new(), Wakeup::new(), Wakeup::new()];
        for (node, wakeup) in [&a, &b, &c].into_iter().zip(&wakeups) {
            node.watch(&name("x"), wakeup);
        }
        b.unwatch(&name("x"));
        drop(c);
        let a: Arc<dyn Node> = Arc::new(a);
        ask(&a, &acquire("x", 1, 5, TTL, false)).await;
        assert!(!wakeups.iter().any(is_notified), "nothing was released");
        ask(&a, &release("x", 1)).await;
        assert_eq!(wakeups.each_ref().map(is_notified), [true, false, false]);
    }
}
