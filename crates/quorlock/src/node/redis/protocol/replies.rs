//! What the server's replies to one command mean.

use crate::node::redis::protocol::commands::UpdateKind;
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::server_errors::classify;
use crate::node::{Content, Denied, Done, NodeError, Reply, View};
use quorlock_core::Fence;
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

/// The reply to an extend or a repair, which is its `call_id`, or to a stamp, which is its call id and the
/// number.
pub(crate) fn update(answer: &Value, kind: UpdateKind, call_id: u64) -> Reply {
    match (answer, kind) {
        (Value::Integer(_), UpdateKind::Extend { .. }) if answer.number() == Some(call_id) => {
            Reply::Done(Done::Plain)
        }
        (Value::Integer(_), UpdateKind::Repair) if answer.number() == Some(call_id) => {
            Reply::Done(Done::Raised)
        }
        (Value::Array(fields), UpdateKind::Stamp { .. }) => match fields.as_slice() {
            [seen, Value::Text(_)] if seen.number() == Some(call_id) => match fields[1].number() {
                Some(to) => Reply::Done(Done::Stamped { to: Fence::new(to) }),
                None => odd("a stamp"),
            },
            _ => odd("a stamp"),
        },
        (answer, _) => refusal(answer),
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
