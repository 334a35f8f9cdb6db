//! One attempt on the wire: `WATCH`, read, compute, `MULTI`, write, `EXEC`.
//!
//! Two writes and two round trips. `MULTI` goes with the reading, so that its answer is known before
//! anything is sent that changes the key: a write behind a refused `MULTI` would happen at once and over
//! anything.

use crate::node::{NodeError, Session, SessionCell, Value};
use crate::store::optimistic::{LONGEST_VALUE, TIMEOUT, UpdateError};
use std::future::Future;
use tokio::time::timeout;

/// What became of an attempt that did not fail.
pub(crate) enum Outcome {
    /// It was written; this is the value now.
    Written(Option<Vec<u8>>),
    /// Another client changed the key in between. Nothing was written.
    Changed,
}

/// What a value is read for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    /// The key is watched and a transaction is open.
    Change,
}

/// Reads, lets `change` compute and writes, once.
///
/// The session is kept only where no state is left on it; everything else drops and thereby closes it.
pub(crate) async fn attempt<E>(
    cell: &mut SessionCell,
    key: &str,
    change: &mut impl FnMut(Option<&[u8]>) -> Result<Option<Vec<u8>>, E>,
) -> Result<Outcome, UpdateError<E>> {
    let (mut session, old) = read(cell, key, Purpose::Change).await?;
    let decision = change(old.as_deref()).map_err(UpdateError::Declined).and_then(short_enough);
    let new = match decision {
        Ok(new) => new,
        Err(refusal) => {
            // For the next user of the session. If it fails, the session is closed, which is as good.
            if discard(&mut session).await.is_ok() {
                cell.keep(session);
            }
            return Err(refusal);
        }
    };
    let is_written = write(&mut session, key, new.as_deref()).await?;
    cell.keep(session);
    Ok(if is_written { Outcome::Written(new) } else { Outcome::Changed })
}

/// Reads the value on the session that was kept or, if the server has closed that one, on a new one.
pub(crate) async fn read<E>(
    cell: &mut SessionCell,
    key: &str,
    purpose: Purpose,
) -> Result<(Session, Option<Vec<u8>>), UpdateError<E>> {
    if let Some(mut session) = cell.take_idle() {
        match ask(&mut session, key, purpose).await {
            Err(UpdateError::Node(NodeError::Disconnected { .. } | NodeError::Timeout { .. })) => {}
            outcome => return outcome.map(|value| (session, value)),
        }
    }
    let mut session = cell.connect().await?;
    let value = ask(&mut session, key, purpose).await?;
    Ok((session, value))
}

async fn ask<E>(
    session: &mut Session,
    key: &str,
    purpose: Purpose,
) -> Result<Option<Vec<u8>>, UpdateError<E>> {
    let key = key.as_bytes();
    if purpose == Purpose::Change {
        session.push(&[b"WATCH", key]);
    }
    // The length comes first: a value over the limit cannot be read at all.
    session.push(&[b"STRLEN", key]);
    session.push(&[b"GET", key]);
    if purpose == Purpose::Change {
        session.push(&[b"MULTI"]);
    }
    in_time(async {
        if purpose == Purpose::Change {
            session.expect_ok().await?;
        }
        let size = session.reply().await?.number().ok_or_else(|| odd("STRLEN"))?;
        if size > LONGEST_VALUE as u64 {
            return Err(UpdateError::TooLarge { size });
        }
        let value = match session.reply().await? {
            Value::Null => None,
            value => Some(value.text().ok_or_else(|| odd("GET"))?.to_vec()),
        };
        if purpose == Purpose::Change {
            session.expect_ok().await?;
        }
        Ok(value)
    })
    .await
}

/// Writes `new` and ends the transaction; `false` if the key was changed in between.
async fn write<E>(session: &mut Session, key: &str, new: Option<&[u8]>) -> Result<bool, UpdateError<E>> {
    match new {
        Some(new) => session.push(&[b"SET", key.as_bytes(), new, b"KEEPTTL"]),
        None => session.push(&[b"DEL", key.as_bytes()]),
    }
    session.push(&[b"EXEC"]);
    let replies = in_time(async { Ok((session.reply_raw().await?, session.reply_raw().await?)) }).await;
    // From here on the server may have carried it out, whatever happened to its answer.
    let (queued, executed) = replies.map_err(|source| UpdateError::Unknown { source })?;
    match (queued, executed) {
        // What the server refuses to queue makes it refuse the transaction.
        (Value::Error(text), Value::Error(_)) | (_, Value::Error(text)) => Err(refusal(&text).into()),
        (_, Value::Null) => Ok(false),
        (_, Value::Array(results)) => match results.as_slice() {
            [Value::Error(text)] => Err(refusal(text).into()),
            [_] => Ok(true),
            _ => Err(UpdateError::Unknown { source: odd("EXEC") }),
        },
        _ => Err(UpdateError::Unknown { source: odd("EXEC") }),
    }
}

/// Why a transaction was refused, in which case none of it happened.
fn refusal(text: &[u8]) -> NodeError {
    let wrapping = b"EXECABORT Transaction discarded because of: ";
    Session::refusal(text.strip_prefix(wrapping).unwrap_or(text))
}

/// Closes the transaction and forgets what was watched.
async fn discard(session: &mut Session) -> Result<(), NodeError> {
    session.push(&[b"DISCARD"]);
    in_time(session.expect_ok()).await
}

fn short_enough<E>(value: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, UpdateError<E>> {
    match &value {
        Some(value) if value.len() > LONGEST_VALUE => Err(UpdateError::TooLarge { size: value.len() as u64 }),
        _ => Ok(value),
    }
}

async fn in_time<T, E: From<NodeError>>(step: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    match timeout(TIMEOUT, step).await {
        Ok(outcome) => outcome,
        Err(_) => Err(NodeError::Timeout { after: TIMEOUT }.into()),
    }
}

fn odd(command: &str) -> NodeError {
    NodeError::Protocol { reason: format!("{command} is answered by another shape").into() }
}
