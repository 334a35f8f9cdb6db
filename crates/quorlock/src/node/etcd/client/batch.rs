//! Changes of many names as one transaction.
//!
//! The changes of a transaction are independent parts: each compares what it needs, and none fails because of
//! another. They concern different names, so no two of them write the same key.

use crate::node::engine::batch::{Batch, Batching, Bounds, Change, Urgency, submit};
use crate::node::etcd::client::api::Api;
use crate::node::etcd::client::errors::{CallError, protocol};
use crate::node::etcd::client::messages::{
    Step, StepAnswer, StepAnswerKind, StepKind, TxnRequest, TxnResponse,
};
use crate::node::etcd::client::txn::{Txn, delete};
use prost::Message;
use std::sync::Arc;

/// etcd accepts 128 steps, and each part has less than the rest of them; and 1.5 MiB.
pub(crate) const BOUNDS: Bounds = Bounds { under_way: 2, changes: 96, bytes: 256 << 10 };

impl Batching for Api {
    type Change = Step;
    type Answer = StepAnswer;
    type Error = CallError;

    fn batch(&self) -> &Batch<Self> {
        &self.batch
    }

    fn size(change: &Step) -> usize {
        change.encoded_len()
    }

    async fn send(self: &Arc<Self>, changes: Vec<Change<Self>>) {
        if changes.len() == 1 {
            return self.send_one_by_one(changes).await;
        }
        let steps = changes.iter().map(|change| change.change.clone()).collect();
        match self.send_together(steps).await {
            Ok(found) => {
                for (change, found) in changes.into_iter().zip(found) {
                    let _ = change.answer.send(Ok(found));
                }
            }
            // One of them is refused; the others are not to suffer from it.
            Err(error) if error.may_be_of_one_part() => {
                if matches!(&error, CallError::Refused(refusal) if refusal.message.contains("too many operations"))
                {
                    self.batch.send_singly();
                }
                self.send_one_by_one(changes).await;
            }
            Err(error) => {
                for change in changes {
                    let _ = change.answer.send(Err(error.clone()));
                }
            }
        }
    }
}

impl Api {
    /// Carries out `txn` soon, whole or not at all, together with others.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        txn: Txn,
        urgency: Urgency,
    ) -> Result<TxnResponse, CallError> {
        match submit(self, txn.into_step(), urgency).await?.kind {
            Some(StepAnswerKind::Txn(answer)) => Ok(answer),
            _ => Err(CallError::Failed(protocol("a transaction lacks a part of its answer"))),
        }
    }

    /// Deletes `key` soon, together with other changes. Returns whether there was one.
    pub(crate) async fn delete(self: &Arc<Self>, key: &[u8]) -> Result<bool, CallError> {
        match submit(self, delete(key), Urgency::InAnyCase).await?.kind {
            Some(StepAnswerKind::Delete(answer)) => Ok(answer.deleted > 0),
            _ => Err(CallError::Failed(protocol("a deletion has no answer"))),
        }
    }

    async fn send_together(&self, steps: Vec<Step>) -> Result<Vec<StepAnswer>, CallError> {
        let count = steps.len();
        let found = self.ask(&TxnRequest { success: steps, ..TxnRequest::default() }).await?.responses;
        if found.len() != count {
            return Err(CallError::Failed(protocol("a transaction lacks a part of its answer")));
        }
        Ok(found)
    }

    async fn send_one_by_one(&self, changes: Vec<Change<Self>>) {
        for Change { change, answer, .. } in changes {
            let _ = answer.send(self.send_alone(change).await);
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
