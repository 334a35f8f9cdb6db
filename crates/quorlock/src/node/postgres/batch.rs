//! Calls for many names as one statement.
//!
//! A commit waits for the disk, for one name as long as for many. A statement has only calls that need a durable
//! commit, or only releases, which switch off the wait for their transaction.

use crate::node::NodeError;
use crate::node::engine::Failure;
use crate::node::engine::batch::{Batch, Batching, Bounds, Change, Urgency, submit};
use crate::node::postgres::connection::Row;
use crate::node::postgres::pool::Pool;
use crate::node::postgres::statement::{Statement, select_all};
use quorlock_core::Name;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

const BOUNDS: Bounds = Bounds { under_way: 2, changes: 128, bytes: 64 << 10 };

/// How long a call waits for a row that another transaction has locked, before it is made alone. The calls of
/// its statement wait as long.
const ROW_TIMEOUT: Duration = Duration::from_millis(50);

/// For a call that waits for no transaction of a user.
const NO_WAIT: i64 = -1;
/// The result of a call that would have to.
const MUST_WAIT: i64 = -6;

/// Calls that may be made together.
#[derive(Debug)]
pub(crate) struct CallBatch {
    pool: Arc<Pool>,
    batch: Batch<Self>,
}

/// The call of a function whose last parameter is how long it may wait for a row.
#[derive(Debug)]
pub(crate) struct Call {
    name: Name,
    statement: Statement,
    until: Instant,
}

impl CallBatch {
    /// `max_wait` is how long a caller waits for an answer.
    pub(crate) fn new(pool: Arc<Pool>, max_wait: Duration) -> Arc<Self> {
        Arc::new(Self { pool, batch: Batch::new(BOUNDS, max_wait) })
    }

    /// Calls a function for `name` soon, together with others. Returns its number.
    pub(crate) async fn call(
        self: &Arc<Self>,
        name: &Name,
        statement: Statement,
        urgency: Urgency,
    ) -> Result<i64, Failure> {
        let call = Call { name: name.clone(), statement, until: self.pool.deadline() };
        submit(self, call, urgency).await
    }

    /// Makes a call in a statement of its own, which does not keep others waiting.
    fn call_alone(self: &Arc<Self>, call: Call, answer: oneshot::Sender<Result<i64, Failure>>) {
        let pool = self.pool.clone();
        tokio::spawn(async move {
            let Call { statement, until, .. } = call;
            let write = |echo, row_timeout: i128| statement.number(row_timeout).select(echo);
            let _ = answer.send(pool.ask_number_by(until, write).await);
        });
    }

    async fn call_together(&self, calls: Vec<Statement>, until: Instant) -> Result<Vec<i64>, Failed> {
        let count = calls.len();
        let lease = self.pool.lease_by(until).await.map_err(Failed::All)?;
        let calls = calls.into_iter().map(|call| call.number(NO_WAIT));
        let write = |echo, _| select_all(echo, ROW_TIMEOUT, calls);
        match self.pool.ask_on(lease, until, write).await {
            Ok(rows) => numbers(&rows, count).ok_or_else(|| {
                let reason = "a statement lacks a part of its answer".into();
                Failed::All(Failure::Unknown(NodeError::Protocol { reason }))
            }),
            // All of them were rolled back, perhaps because of one of them.
            Err(Failure::Unsent(error)) if count > 1 || matches!(error, NodeError::Busy) => Err(Failed::Some),
            Err(failure) => Err(Failed::All(failure)),
        }
    }
}

/// Why calls failed that were made together.
enum Failed {
    /// For a reason that concerns all of them.
    All(Failure),
    /// None had an effect, and some may succeed alone.
    Some,
}

impl Batching for CallBatch {
    type Change = Call;
    type Answer = i64;
    type Error = Failure;

    fn batch(&self) -> &Batch<Self> {
        &self.batch
    }

    fn size(call: &Call) -> usize {
        call.statement.len()
    }

    async fn send(self: &Arc<Self>, mut changes: Vec<Change<Self>>) {
        // Two statements that lock several of the same rows do so in the same order.
        changes.sort_unstable_by(|one, other| one.change.name.cmp(&other.change.name));
        let Some(until) = changes.iter().map(|change| change.change.until).min() else { return };
        let calls = changes.iter().map(|change| change.change.statement.clone()).collect();
        let results = match self.call_together(calls, until).await {
            Ok(results) => results.into_iter().map(Ok).collect(),
            Err(Failed::Some) => vec![Ok(MUST_WAIT); changes.len()],
            Err(Failed::All(failure)) => vec![Err(failure); changes.len()],
        };
        for (Change { change: call, answer, .. }, result) in changes.into_iter().zip(results) {
            match result {
                Ok(MUST_WAIT) => self.call_alone(call, answer),
                result => drop(answer.send(result)),
            }
        }
    }
}

/// The numbers in the only row of an answer, behind the echo and the setting.
fn numbers(rows: &[Row], count: usize) -> Option<Vec<i64>> {
    let [row] = rows else { return None };
    let numbers: Vec<i64> =
        row.iter().skip(2).map(|cell| cell.as_ref()?.parse().ok()).collect::<Option<_>>()?;
    (numbers.len() == count).then_some(numbers)
}
