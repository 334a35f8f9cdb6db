//! Whoever carries out the commands for one name, one after another.

use super::desk::Desk;
use super::lane::{Asked, Lane, Next, Work};
use super::store::Store;
use super::watch::{Watch, ring};
use crate::node::{Bell, Command, NodeError, Reply};
use quorlock_core::Name;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The delays before a release that failed is tried again: each twice as long as the one before.
const DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// A release is tried for this long; most locks are over by then.
const LONGEST: Duration = Duration::from_secs(120);

/// A release that failed. Nobody waits for its answer: whoever did had the failure.
struct Debt {
    release: Command,
    since: Instant,
    due: Instant,
    delay: Duration,
}

impl Debt {
    fn new(release: &Command) -> Self {
        let now = Instant::now();
        Self { release: release.clone(), since: now, due: now + DELAYS.0, delay: DELAYS.0 }
    }
}

/// Whoever carries out what waits in one lane.
pub(super) struct Walker {
    pub(super) name: Name,
    pub(super) store: Store,
    pub(super) desk: Desk,
    /// How long a watch may take to begin.
    pub(super) patience: Duration,
    watch: Option<AbortHandle>,
    owed: VecDeque<Debt>,
}

impl Walker {
    pub(super) fn new(name: Name, store: Store, desk: Desk, patience: Duration) -> Self {
        Self { name, store, desk, patience, watch: None, owed: VecDeque::new() }
    }

    /// Carries out what waits in `lane`, until nothing does.
    pub(super) async fn walk(mut self, lane: &Lane) {
        let _closing = Closing(lane);
        loop {
            let stays = !self.owed.is_empty() && self.desk.is_open();
            let due = self.owed.front().map(|debt| debt.due);
            match lane.next(stays || self.watch.is_some(), due).await {
                Next::Work(Work::Ask(asked)) => self.answer(asked).await,
                Next::Work(Work::Watch(bell)) => self.begin_watch(bell).await,
                Next::Work(Work::Unwatch) => self.end_watch(),
                Next::Due => drop(self.pay().await),
                Next::Over => return,
            }
        }
    }

    async fn answer(&mut self, Asked { question, since, counted: _counted }: Asked) {
        // Whoever asked has given up. To carry it out would only keep those behind it waiting; but a release is owed.
        let after = self.store.limit;
        if since.elapsed() > after && !matches!(question.command(), Command::Release { .. }) {
            return question.answer(Reply::failed(NodeError::Timeout { after }));
        }
        // What was released must be free before anybody takes it again.
        let paid =
            if matches!(question.command(), Command::Inspect { .. }) { Ok(()) } else { self.pay().await };
        let asked = Instant::now();
        let result = match paid {
            Ok(()) => self.store.execute(question.command()).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(reply) => {
                self.desk.note_well(asked.elapsed());
                question.answer(reply);
            }
            Err(error) => {
                self.desk.note_trouble(&error);
                if matches!(question.command(), Command::Release { .. }) {
                    self.owed.push_back(Debt::new(question.command()));
                }
                question.answer(Reply::failed(error));
            }
        }
    }

    /// Tries again what was not released, the oldest first.
    async fn pay(&mut self) -> Result<(), NodeError> {
        while let Some(debt) = self.owed.front_mut() {
            let Err(error) = self.store.execute(&debt.release).await else {
                self.owed.pop_front();
                continue;
            };
            if debt.since.elapsed() >= LONGEST {
                self.owed.pop_front();
            } else {
                debt.delay = (debt.delay * 2).min(DELAYS.1);
                debt.due = Instant::now() + debt.delay;
            }
            return Err(error);
        }
        Ok(())
    }

    async fn begin_watch(&mut self, bell: Bell) {
        self.end_watch();
        // If it cannot be begun now, it is later, and the poll of whoever waits must do meanwhile.
        let watch = Watch::begin(&self.store, &self.name, self.patience).await.ok();
        let ring = ring(watch, self.store.clone(), self.name.clone(), bell, self.patience);
        self.watch = Some(tokio::spawn(ring).abort_handle());
    }

    fn end_watch(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.abort();
        }
    }
}

struct Closing<'a>(&'a Lane);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for Walker {
    fn drop(&mut self) {
        self.end_watch();
    }
}
