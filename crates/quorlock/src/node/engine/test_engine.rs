//! An engine in memory, for tests of the core.

use crate::context::mutex::Mutex;
use crate::node::engine::{Engine, Failure, Hints};
use crate::node::record::{Place, Record, with_taken};
use crate::node::{Acquire, AcquireKind, Command, Facts, Names, NodeError, Reply};
use quorlock_core::{Moment, Name};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;

/// Names that never expire.
#[derive(Debug, Default)]
pub(crate) struct TestEngine {
    records: Mutex<BTreeMap<Name, Record>>,
    /// What every command fails with from now on.
    pub(crate) failure: Mutex<Option<fn() -> Failure>>,
    /// The releases that undid something, and those that did not.
    pub(crate) undone: Mutex<Vec<Command>>,
    pub(crate) released: Mutex<Vec<Command>>,
    /// How many commands were executed.
    changes: watch::Sender<u64>,
}

impl TestEngine {
    fn answer(&self, command: &Command) -> Result<Reply, Failure> {
        if let Some(failure) = *self.failure.lock() {
            return Err(failure());
        }
        let (now, place) = (Moment::from_boot(Duration::from_secs(1)), Place::default());
        let mut records = self.records.lock();
        let is_held =
            |records: &BTreeMap<Name, Record>, name: &Name| records.get(name).is_some_and(Record::is_held);
        let taken = match command {
            Command::Slots { name, count, .. } => {
                (0..*count).map(|slot| is_held(&records, &Name::of_slot(name, slot))).collect()
            }
            _ => Vec::new(),
        };
        let record = records.entry(command.name().clone()).or_default();
        if let Command::Acquire(Acquire { kind: AcquireKind::Vote, token, .. }) = command
            && record.holds.iter().any(|hold| hold.value.starts_with(token.as_str()))
        {
            return Err(Failure::Unknown(NodeError::Abandoned));
        }
        let reply = record.execute(command, now, &place);
        self.changes.send_modify(|changes| *changes += 1);
        Ok(with_taken(reply, taken))
    }
}

impl Engine for TestEngine {
    const KIND: &'static str = "test";

    async fn execute(&self, command: &Command) -> Result<Reply, Failure> {
        if matches!(command, Command::Release { .. }) {
            self.released.lock().push(command.clone());
        }
        self.answer(command)
    }

    async fn undo(&self, release: &Command) -> Result<Reply, Failure> {
        self.undone.lock().push(release.clone());
        self.answer(release)
    }

    fn position(&self) -> u64 {
        *self.changes.borrow() + 1
    }

    async fn follow(&self, _name: &Name, since: u64, mut hints: Hints) {
        let mut changes = self.changes.subscribe();
        hints.begin();
        if since != 0 && self.position() > since {
            hints.notify();
        }
        while changes.changed().await.is_ok() {
            hints.notify();
        }
    }

    async fn version(&self) -> Result<String, NodeError> {
        Ok("test 1".to_owned())
    }

    async fn names(&self) -> Result<Names, NodeError> {
        Ok(Names::new(self.records.lock().keys().cloned()))
    }

    async fn examine(&self) -> Result<Facts, NodeError> {
        Ok(Facts::Unknown)
    }
}
