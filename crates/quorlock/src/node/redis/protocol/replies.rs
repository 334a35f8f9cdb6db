//! What the server's replies to one command mean.

use crate::node::redis::protocol::commands::UpdateKind;
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::server_errors::classify;
use crate::node::{Content, Denied, Done, NodeError, RefusedSlots, Reply, SlotsView, View};
use quorlock_core::{Fence, StoredLock};
use std::time::Duration;

/// A vote that was cast.
pub(crate) const YES: &[u8] = b"+OK\r\n";
/// A vote that raised the counter, too.
pub(crate) const YES_AND_RAISED: &[u8] = b"+OK\r\n:1\r\n";

/// The reply to a vote, from those to `SET` and to `ZADD` if it raises. The epoch decides whether it
/// counts.
pub(crate) fn vote(set: &Value, raise: Option<&Value>) -> Reply {
    match (set, raise) {
        (Value::Error(text), _) => Reply::failed(classify(text)),
        // Denied is denied, whatever became of the counter.
        (Value::Null, _) => Reply::Denied(Denied::Taken),
        (Value::Okay, None) => Reply::Done(Done::Raised),
        (Value::Okay, Some(Value::Error(text))) => Reply::failed(classify(text)),
        (Value::Okay, Some(Value::Integer(1))) => Reply::Done(Done::Raised),
        (Value::Okay, Some(Value::Integer(0))) => Reply::Done(Done::Unraised { counter: None }),
        _ => odd("a vote"),
    }
}

/// The reply to a release.
pub(crate) fn release(answer: &Value) -> Reply {
    match answer {
        Value::Integer(1) => Reply::Done(Done::Plain),
        Value::Integer(2 | 3) => Reply::Done(Done::Unawaited),
        answer => refusal(answer),
    }
}

/// The reply to a command that a script of its own executes. It begins with the `call_id`.
pub(crate) fn update(answer: &Value, kind: UpdateKind, call_id: u64) -> Reply {
    let is_ours = |seen: &Value| seen.number() == Some(call_id);
    match (kind, answer) {
        (UpdateKind::Extend | UpdateKind::Downgrade, Value::Integer(_)) if is_ours(answer) => {
            Reply::Done(Done::Plain)
        }
        (UpdateKind::Repair, Value::Integer(_)) if is_ours(answer) => Reply::Done(Done::Raised),
        (_, Value::Array(fields)) => match fields.split_first() {
            Some((seen, rest)) if is_ours(seen) => fields_of(kind, rest),
            _ => odd("a script"),
        },
        _ => refusal(answer),
    }
}

/// What a script answered behind the call id.
fn fields_of(kind: UpdateKind, fields: &[Value]) -> Reply {
    match (kind, fields) {
        (UpdateKind::Stamp, [Value::Text(_)]) => match fields[0].number() {
            Some(to) => Reply::Done(Done::Stamped { to: Fence::new(to) }),
            None => odd("a stamp"),
        },
        (UpdateKind::Vote | UpdateKind::Repair, [Value::Integer(1)]) => Reply::Done(Done::Raised),
        (UpdateKind::Vote, [Value::Integer(0)]) => Reply::Done(Done::Unraised { counter: None }),
        (UpdateKind::Repair, [Value::Integer(0)]) => Reply::Done(Done::Raised),
        (UpdateKind::Slots, [recorded @ Value::Integer(_), Value::Text(taken), refused @ ..]) => {
            let refused = match refused {
                [] => None,
                [count, seconds] => count.number().zip(seconds.number()),
                _ => return odd("a script"),
            };
            Reply::Done(Done::Slots(Box::new(SlotsView {
                recorded: count_of(recorded.number()),
                refused: refused.and_then(|(count, seconds)| {
                    Some(RefusedSlots::new(count_of(Some(count))?, Duration::from_secs(seconds)))
                }),
                taken: taken.iter().map(|slot| *slot != b'0').collect(),
            })))
        }
        _ => odd("a script"),
    }
}

/// A number of slots. A record that is none of ours counts as none.
fn count_of(number: Option<u64>) -> Option<u32> {
    u32::try_from(number?).ok().filter(|count| *count > 0)
}

/// The shared holders that a script answered; `None` if something else is stored, or if the answer belongs to
/// another call.
pub(crate) fn readers(answer: &Value, call_id: u64) -> Result<Vec<StoredLock>, Reply> {
    match answer {
        Value::Error(text) => Err(Reply::failed(classify(text))),
        Value::Array(fields) => match fields.split_first() {
            Some((seen, readers)) if seen.number() == Some(call_id) => {
                Ok(readers.iter().filter_map(|reader| StoredLock::parse(reader.text()?)).collect())
            }
            _ => Err(odd("a script")),
        },
        _ => Err(odd("a script")),
    }
}

/// What all scripts answer if they changed nothing.
fn refusal(answer: &Value) -> Reply {
    match answer {
        Value::Error(text) => Reply::failed(classify(text)),
        Value::Integer(0) => Reply::Denied(Denied::Gone),
        Value::Integer(-1) => Reply::Denied(Denied::Taken),
        _ => odd("a script"),
    }
}

/// The reply to an inspection, from those to `GETRANGE`, `PTTL` and `ZSCORE`.
pub(crate) fn view(stored: &Value, left: &Value, counter: &Value) -> Reply {
    let content = match (stored, left) {
        // `PTTL` alone distinguishes nothing from an empty string.
        (Value::Text(_), Value::Integer(-2)) => Content::Free,
        (Value::Text(value), _) => Content::from_value(value),
        (Value::Error(text), _) => match classify(text) {
            NodeError::WrongType { .. } => Content::Foreign("(another type)".to_owned()),
            cause => return Reply::failed(cause),
        },
        _ => return odd("an inspection"),
    };
    if let Value::Error(text) = left {
        return Reply::failed(classify(text));
    }
    Reply::Done(Done::Seen(Box::new(View {
        content,
        left: left.number().map(Duration::from_millis),
        counter: counter.number().map(Fence::new),
    })))
}

/// The outcome of a raw call.
pub(crate) fn raw(answer: Value) -> Result<Value, NodeError> {
    match answer {
        Value::Error(text) => Err(classify(&text)),
        answer => Ok(answer),
    }
}

fn odd(what: &str) -> Reply {
    Reply::failed(NodeError::Protocol { reason: format!("{what} is answered by another shape").into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::redis::protocol::resp;

    #[test]
    fn the_bytes_that_say_yes_mean_what_their_values_mean() {
        let (set, length) = resp::read(YES_AND_RAISED).unwrap().unwrap();
        assert_eq!(&YES_AND_RAISED[..length], YES);
        let (raise, rest) = resp::read(&YES_AND_RAISED[length..]).unwrap().unwrap();
        assert_eq!(length + rest, YES_AND_RAISED.len());
        assert!(matches!(vote(&set, None), Reply::Done(Done::Raised)));
        assert!(matches!(vote(&set, Some(&raise)), Reply::Done(Done::Raised)));
    }
}
