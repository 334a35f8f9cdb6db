//! Changes of many names, sent together: one transaction for all that wait while others are under way.
//!
//! A cluster takes about as long for one change as for many, because its members agree on each transaction
//! and write it to disk. The changes of a transaction are independent parts: each compares what it needs, and
//! none fails because of another. They concern different names, so no two of them write the same key.

use crate::context::mutex::Mutex;
use crate::node::NodeError;
use crate::node::etcd::client::api::Api;
use crate::node::etcd::client::errors::{CallError, protocol};
use crate::node::etcd::client::messages::{
    Step, StepAnswer, StepAnswerKind, StepKind, TxnRequest, TxnResponse,
};
use crate::node::etcd::client::txn::{Txn, delete};
use prost::Message;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

/// The most transactions that are under way before further changes wait.
const MAX_UNDER_WAY: usize = 2;
/// The most changes in one transaction. etcd accepts 128 steps, and each part has less than the rest of them.
const MAX_CHANGES: usize = 96;
/// A transaction that has this many bytes gets no further changes. etcd accepts 1.5 MiB.
const MAX_BYTES: usize = 256 << 10;

/// Changes that wait to be sent together.
#[derive(Debug)]
pub(crate) struct Batch {
    queue: Mutex<Queue>,
    /// How many changes one transaction may have.
    limit: AtomicUsize,
    /// How long a change may wait before it is sent, and for how long a transaction keeps others waiting.
    patience: Duration,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Change>,
    /// How many transactions are under way that keep others waiting.
    under_way: usize,
}

#[derive(Debug)]
struct Change {
    step: Step,
    since: Instant,
    /// Whether to send it even if its caller has given up.
    urgency: Urgency,
    answer: oneshot::Sender<Result<StepAnswer, CallError>>,
}

/// Whether a change is still to be made when its caller has given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    WhileAwaited,
    InAnyCase,
}

impl Batch {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { queue: Mutex::default(), limit: AtomicUsize::new(MAX_CHANGES), patience }
    }

    /// The changes to send next; those that waited for too long are refused.
    fn take(&self) -> Vec<Change> {
        let limit = self.limit.load(Ordering::Relaxed);
        let (mut taken, mut late, mut bytes) = (Vec::new(), Vec::new(), 0);
        {
            let mut queue = self.queue.lock();
            while taken.len() < limit && bytes < MAX_BYTES {
                let Some(change) = queue.waiting.pop_front() else { break };
                if change.urgency == Urgency::WhileAwaited && change.since.elapsed() > self.patience {
                    late.push(change);
                    continue;
                }
                bytes += change.step.encoded_len();
                taken.push(change);
            }
            if taken.is_empty() {
                queue.under_way -= 1;
            }
        }
        for change in late {
            let error = NodeError::Timeout { after: self.patience };
            let _ = change.answer.send(Err(CallError::Unsent(error)));
        }
        taken
    }

    /// Whether one more transaction may keep others waiting; it is counted if so.
    fn may_start(&self) -> bool {
        let mut queue = self.queue.lock();
        let may = queue.under_way < MAX_UNDER_WAY && !queue.waiting.is_empty();
        queue.under_way += usize::from(may);
        may
    }
}

impl Api {
    /// Carries out `txn` soon, whole or not at all, together with others.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        txn: Txn,
        urgency: Urgency,
    ) -> Result<TxnResponse, CallError> {
        match self.change(txn.into_step(), urgency).await?.kind {
            Some(StepAnswerKind::Txn(answer)) => Ok(answer),
            _ => Err(CallError::Failed(protocol("a transaction lacks a part of its answer"))),
        }
    }

    /// Deletes `key` soon, together with other changes. Returns whether there was one.
    pub(crate) async fn delete(self: &Arc<Self>, key: &[u8]) -> Result<bool, CallError> {
        match self.change(delete(key), Urgency::InAnyCase).await?.kind {
            Some(StepAnswerKind::Delete(answer)) => Ok(answer.deleted > 0),
            _ => Err(CallError::Failed(protocol("a deletion has no answer"))),
        }
    }

    async fn change(self: &Arc<Self>, step: Step, urgency: Urgency) -> Result<StepAnswer, CallError> {
        let (answer, answered) = oneshot::channel();
        self.batch.queue.lock().waiting.push_back(Change { step, since: Instant::now(), urgency, answer });
        self.start_sending();
        answered.await.unwrap_or(Err(CallError::Failed(NodeError::Abandoned)))
    }

    /// Sends what waits, unless enough is under way. It begins behind all tasks that can run now, so that
    /// their changes go along.
    fn start_sending(self: &Arc<Self>) {
        if self.batch.may_start() {
            tokio::spawn(send_all(self.clone()));
        }
    }

    /// Sends `changes` and answers them.
    async fn send_changes(&self, changes: Vec<Change>) {
        let (steps, answers): (Vec<_>, Vec<_>) =
            changes.into_iter().map(|change| (change.step, change.answer)).unzip();
        let results = match steps.len() {
            1 => Err(None),
            _ => self.send_together(&steps).await.map_err(Some),
        };
        match results {
            Ok(found) => {
                for (answer, found) in answers.into_iter().zip(found) {
                    let _ = answer.send(Ok(found));
                }
            }
            // One of them is refused; the others are not to suffer from it.
            Err(None) => self.send_one_by_one(steps, answers).await,
            Err(Some(error)) if error.may_be_of_one_part() => {
                if matches!(&error, CallError::Refused(refusal) if refusal.message.contains("too many operations"))
                {
                    self.batch.limit.store(1, Ordering::Relaxed);
                }
                self.send_one_by_one(steps, answers).await;
            }
            Err(Some(error)) => {
                for answer in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }

    async fn send_together(&self, steps: &[Step]) -> Result<Vec<StepAnswer>, CallError> {
        let txn = TxnRequest { success: steps.to_vec(), ..TxnRequest::default() };
        let found = self.ask(&txn).await?.responses;
        if found.len() != steps.len() {
            return Err(CallError::Failed(protocol("a transaction lacks a part of its answer")));
        }
        Ok(found)
    }

    async fn send_one_by_one(
        &self,
        steps: Vec<Step>,
        answers: Vec<oneshot::Sender<Result<StepAnswer, CallError>>>,
    ) {
        for (step, answer) in steps.into_iter().zip(answers) {
            let _ = answer.send(self.send_alone(step).await);
        }
    }

    async fn send_alone(&self, step: Step) -> Result<StepAnswer, CallError> {
        let kind = match step.kind {
            Some(StepKind::Txn(txn)) => StepAnswerKind::Txn(self.ask(&txn).await?),
            Some(StepKind::Delete(delete)) => StepAnswerKind::Delete(self.ask(&delete).await?),
            _ => return Err(CallError::Unsent(protocol("there is nothing to change"))),
        };
        Ok(StepAnswer { kind: Some(kind) })
    }
}

/// Sends what waits until nothing does.
async fn send_all(api: Arc<Api>) {
    loop {
        let changes = api.batch.take();
        if changes.is_empty() {
            return;
        }
        let mut sending = std::pin::pin!(api.send_changes(changes));
        if timeout(api.batch.patience, &mut sending).await.is_err() {
            // It must not keep others waiting for longer: another member may answer them.
            api.batch.queue.lock().under_way -= 1;
            api.start_sending();
            sending.await;
            return;
        }
    }
}
