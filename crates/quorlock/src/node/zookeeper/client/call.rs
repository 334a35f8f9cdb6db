//! An operation that was sent, and what became of it.

use crate::node::NodeError;
use crate::node::zookeeper::client::connection::Shared;
use crate::node::zookeeper::client::operation::Refusal;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Why an operation has no answer.
#[derive(Clone, Debug)]
pub(crate) enum CallError {
    /// The ensemble refused it and changed nothing.
    Refused(Refusal),
    /// It was not sent.
    Unsent(NodeError),
    /// It may have been executed, or may be executed later.
    Unknown(NodeError),
}

impl CallError {
    /// What it means for an operation on `path`.
    pub(crate) fn cause(self, path: &str) -> NodeError {
        match self {
            CallError::Refused(refusal) => refusal.cause(path),
            CallError::Unsent(error) | CallError::Unknown(error) => error,
        }
    }
}

/// An operation that was sent. If it is dropped, the operation is executed all the same.
#[derive(Debug)]
pub(crate) struct Call {
    answered: oneshot::Receiver<Result<Bytes, CallError>>,
    connection: Arc<Shared>,
    sent: Instant,
}

impl Call {
    pub(crate) fn new(
        answered: oneshot::Receiver<Result<Bytes, CallError>>,
        connection: Arc<Shared>,
    ) -> Self {
        Self { answered, connection, sent: Instant::now() }
    }

    /// Waits for the answer until `deadline`. A connection that owes any answer for `reply_timeout` is ended then: its
    /// member may be stuck, and another one may answer.
    pub(crate) async fn answer(self, deadline: Instant, reply_timeout: Duration) -> Result<Bytes, CallError> {
        match timeout_at(deadline, self.answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(CallError::Unknown(NodeError::Abandoned)),
            Err(_) => {
                self.connection.end_if_stuck(reply_timeout);
                Err(CallError::Unknown(NodeError::Timeout { after: self.sent.elapsed() }))
            }
        }
    }
}
