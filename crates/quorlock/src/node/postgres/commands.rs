//! What each command asks of the database, and what its answer means.

use crate::node::engine::Failure;
use crate::node::engine::batch::Urgency;
use crate::node::postgres::Postgres;
use crate::node::postgres::connection::Row;
use crate::node::postgres::statement::Statement;
use crate::node::{
    Acquire, AcquireKind, Command, Content, Denied, Done, NodeError, RecordSlots, RefusedSlots, Reply,
    SlotsView, View,
};
use quorlock_core::{Fence, Mode, Name, StoredLock, Token};
use std::time::Duration;

/// Below this, a negative result says how many milliseconds a quarantine lasts.
const QUARANTINED: i64 = -1000;

impl Postgres {
    pub(crate) async fn execute_command(&self, command: &Command) -> Result<Reply, Failure> {
        let pool = &self.pool;
        match command {
            Command::Acquire(acquire) => self.acquire(acquire).await,
            Command::Stamp { name, token, at_least } => {
                let call = pool.call("stamp").text(name.as_str()).text(token.as_str());
                let call = call.number(at_least.get());
                match self.durable.call(name, call, Urgency::WhileAwaited).await? {
                    -5 => Err(used_up()),
                    to if to > 0 => Ok(Reply::Done(Done::Stamped { to: fence(to)? })),
                    other => plain(other),
                }
            }
            Command::Extend { name, token, ttl, mode, .. } => {
                let call = pool.call("extend").text(name.as_str()).text(token.as_str());
                let call = call.number(millis(*ttl)).flag(*mode == Mode::Exclusive);
                plain(self.durable.call(name, call, Urgency::WhileAwaited).await?)
            }
            Command::Downgrade { name, token, at_most, fence } => {
                let write = |echo, row_timeout| {
                    let call = pool.call("downgrade").text(name.as_str()).text(token.as_str());
                    call.number(at_most.get()).number(fence.get()).number(row_timeout).select(echo)
                };
                plain(pool.ask_number(write).await?)
            }
            Command::Release { name, token, quiet, .. } => {
                let call = self.call_release("release", name, token, *quiet);
                plain(self.releases.call(name, call, Urgency::InAnyCase).await?)
            }
            Command::HoldOffReaders { name, ttl } => {
                let write = |echo, _| {
                    pool.call("hold_off_readers").text(name.as_str()).number(millis(*ttl)).select(echo)
                };
                plain(pool.ask_number(write).await?)
            }
            Command::Inspect { name } => self.inspect(name).await,
            Command::Slots { name, count, record } => self.slots(name, *count, *record).await,
        }
    }

    /// Releases, and makes sure that an acquire with this token has no effect if it arrives later.
    pub(crate) async fn undo_attempt(
        &self,
        name: &Name,
        token: &Token,
        quiet: bool,
    ) -> Result<Reply, Failure> {
        let call = self.call_release("undo", name, token, quiet);
        plain(self.pool.ask_number(|echo, row_timeout| call.number(row_timeout).select(echo)).await?)
    }

    fn call_release(&self, function: &str, name: &Name, token: &Token, quiet: bool) -> Statement {
        let call = self.pool.call(function).text(name.as_str()).text(token.as_str());
        call.text(name.topic().as_str()).flag(quiet)
    }

    async fn acquire(&self, acquire: &Acquire) -> Result<Reply, Failure> {
        let (function, is_upgrade) = match (acquire.kind, acquire.mode) {
            (AcquireKind::Vote, Mode::Exclusive) => ("acquire", None),
            (AcquireKind::Vote, Mode::Shared) => ("share", Some(false)),
            (AcquireKind::Upgrade, _) => ("share", Some(true)),
            (AcquireKind::Repair, _) => {
                let message = "a database needs no repair".into();
                return Err(Failure::Unsent(NodeError::Server { message }));
            }
        };
        let call = self.pool.call(function).text(acquire.name.as_str()).text(acquire.token.as_str());
        let call = call.number(acquire.proposal.get()).text(&acquire.label.to_string());
        let call = call.number(millis(acquire.ttl)).flag(self.is_durable);
        let call = match is_upgrade {
            None => call,
            Some(is_upgrade) => call.flag(is_upgrade),
        };
        match self.durable.call(&acquire.name, call, Urgency::WhileAwaited).await {
            // A transaction that checked its fence holds the row. Nothing was changed.
            Err(Failure::Unsent(NodeError::Busy)) => Ok(Reply::Denied(Denied::Taken)),
            Err(failure) => Err(failure),
            Ok(0) => Ok(Reply::Done(Done::Raised)),
            Ok(counter @ 1..) => Ok(Reply::Done(Done::Unraised { counter: Some(fence(counter)?) })),
            Ok(-3) => {
                let message = "too many clients share the name already".into();
                Err(Failure::Unsent(NodeError::Server { message }))
            }
            Ok(-4) => {
                // Another client may have raised it since.
                self.pool.close_idle();
                let (ttl, longest) = (acquire.ttl, self.pool.longest());
                Err(Failure::Unsent(NodeError::TtlNotRecorded { ttl, longest }))
            }
            Ok(result) if result <= QUARANTINED => {
                let left = Duration::from_millis((QUARANTINED - result).unsigned_abs());
                Err(Failure::Unsent(NodeError::Quarantined { left }))
            }
            Ok(other) => plain(other),
        }
    }

    async fn inspect(&self, name: &Name) -> Result<Reply, Failure> {
        let columns = "counter, left_ms, holder, readers";
        let write = |echo, _| {
            let call = self.pool.call("inspect").text(name.as_str());
            call.number(View::MAX_READERS as i64).select_columns(echo, columns)
        };
        let row = first(self.pool.ask(write).await?)?;
        let counter = number(&row, 1).and_then(|counter| u64::try_from(counter).ok());
        let left = number(&row, 2).and_then(|left| u64::try_from(left).ok()).map(Duration::from_millis);
        let content = match (cell(&row, 3), cell(&row, 4)) {
            (Some(holder), _) => Content::from_value(holder.as_bytes()),
            (None, Some(readers)) => {
                let readers = readers.lines().filter_map(|reader| StoredLock::parse(reader.as_bytes()));
                Content::Shared(readers.collect())
            }
            (None, None) => Content::Free,
        };
        let counter = counter.filter(|counter| *counter > 0).map(Fence::new);
        Ok(Reply::Done(Done::Seen(Box::new(View { content, left, counter }))))
    }

    async fn slots(&self, name: &Name, count: u32, record: RecordSlots) -> Result<Reply, Failure> {
        let record = match record {
            RecordSlots::Nothing => 0,
            RecordSlots::IfNone => 1,
            RecordSlots::Replace => 2,
            RecordSlots::Refused => 3,
        };
        let write = |echo, _| {
            let call = self.pool.call("slots").text(name.as_str()).number(count).number(record);
            call.select_columns(echo, "recorded, refused, refused_ms, taken")
        };
        let row = first(self.pool.ask(write).await?)?;
        let count_in = |at| number(&row, at).and_then(|count| u32::try_from(count).ok());
        let ago = number(&row, 3).and_then(|ago| u64::try_from(ago).ok()).map(Duration::from_millis);
        let refused = count_in(2).zip(ago).map(|(count, ago)| RefusedSlots::new(count, ago));
        let taken = cell(&row, 4).unwrap_or_default().chars().map(|slot| slot == '1').collect();
        let view = SlotsView { recorded: count_in(1), refused, taken };
        Ok(Reply::Done(Done::Slots(Box::new(view))))
    }
}

/// The reply to a command that is only done or not.
fn plain(result: i64) -> Result<Reply, Failure> {
    match result {
        0 => Ok(Reply::Done(Done::Plain)),
        -1 => Ok(Reply::Denied(Denied::Taken)),
        -2 => Ok(Reply::Denied(Denied::Gone)),
        other => Err(Failure::Unknown(protocol(format!("a function returned {other}")))),
    }
}

fn used_up() -> Failure {
    Failure::Unsent(NodeError::Server { message: "the fence counter of this name is used up".into() })
}

fn fence(number: i64) -> Result<Fence, Failure> {
    let fence = u64::try_from(number).ok().and_then(|number| Fence::try_from(number).ok());
    fence.ok_or_else(|| Failure::Unknown(protocol(format!("{number} is no fence"))))
}

fn first(rows: Vec<Row>) -> Result<Row, Failure> {
    rows.into_iter().next().ok_or_else(|| Failure::Unknown(protocol("a function returned nothing".into())))
}

fn cell(row: &Row, at: usize) -> Option<&str> {
    row.get(at)?.as_deref()
}

fn number(row: &Row, at: usize) -> Option<i64> {
    cell(row, at)?.parse().ok()
}

fn protocol(reason: String) -> NodeError {
    NodeError::Protocol { reason: reason.into() }
}

/// Whole milliseconds, rounded up: a hold must not end sooner than its ttl.
fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}
