//! The operations of a history, as JSON lines that another checker can read.
//!
//! `porcupine/README.md` in this crate describes the format.

use serde::Serialize;
use std::io::{self, Write};
use std::time::Duration;

/// What a client did, or what happened to its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperationKind {
    /// A client was granted a lock.
    Acquire,
    /// A client continues with a lock that was granted before: that of another client, or its own by
    /// its token.
    Adopt,
    /// A lock was extended.
    Extend,
    /// A client that had a lock alone shares it from now on.
    Downgrade,
    /// A client does not hold its lock any more: released, handed over, lost, expired, or its process
    /// died.
    End,
    /// A client released the lock of another client by force.
    ForceRelease,
    /// Servers may have forgotten locks in a way that no client can see.
    Forget,
    /// A client showed its fence to the protected resource.
    Show,
    /// A client read the protected value, to write it.
    Read,
    /// A client that shares the lock showed its fence to the resource and read the value.
    SharedRead,
    /// A client wrote the protected value.
    Write,
}

/// One operation. Times count from the start of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// What was done.
    pub op: OperationKind,
    /// The client that did it, if the history says so.
    pub client: Option<usize>,
    /// The lock, or all locks.
    pub name: Option<String>,
    /// The fence of the lock.
    pub fence: Option<u64>,
    /// Whether the lock was granted shared.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Not before this moment; unknown if absent.
    #[serde(serialize_with = "nanoseconds")]
    pub call: Option<Duration>,
    /// Not after this moment; never, or unknown, if absent.
    #[serde(rename = "return", serialize_with = "nanoseconds")]
    pub returned: Option<Duration>,
    /// Whether the resource accepted the fence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// The value that was read or written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value that the client had read before it wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub based_on: Option<String>,
}

impl Operation {
    /// An operation on no lock, at an unknown time.
    pub(crate) fn new(op: OperationKind) -> Self {
        Self {
            op,
            client: None,
            name: None,
            fence: None,
            shared: false,
            call: None,
            returned: None,
            ok: None,
            value: None,
            based_on: None,
        }
    }

    /// An operation of a client on a lock, at an unknown time.
    pub(crate) fn on_lock(op: OperationKind, client: Option<usize>, name: &str, fence: u64) -> Self {
        Self { client, name: Some(name.to_owned()), fence: Some(fence), ..Self::new(op) }
    }

    /// The same at this time.
    pub(crate) fn at(self, call: Option<Duration>, returned: Option<Duration>) -> Self {
        Self { call, returned, ..self }
    }
}

/// An operation and the history that it belongs to.
#[derive(Serialize)]
struct Line<'a> {
    world: u64,
    #[serde(flatten)]
    operation: &'a Operation,
}

/// Writes the operations of the history with number `world`, one line each.
///
/// # Errors
/// The file cannot be written.
pub fn write_operations(file: &mut impl Write, world: u64, operations: &[Operation]) -> io::Result<()> {
    for operation in operations {
        serde_json::to_writer(&mut *file, &Line { world, operation })?;
        file.write_all(b"\n")?;
    }
    Ok(())
}

#[allow(clippy::ref_option)] // serde passes a reference to the field.
fn nanoseconds<S: serde::Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).serialize(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_a_line_of_json() {
        let time = Some(Duration::from_micros(2));
        let acquire = Operation::on_lock(OperationKind::Acquire, Some(1), "a", 7).at(time, None);
        let mut lines = Vec::new();
        write_operations(&mut lines, 3, &[acquire]).unwrap();
        let expected =
            r#"{"world":3,"op":"acquire","client":1,"name":"a","fence":7,"call":2000,"return":null}"#;
        assert_eq!(String::from_utf8(lines).unwrap(), format!("{expected}\n"));
    }

    #[test]
    fn only_a_shared_lock_is_marked() {
        let acquire = |shared| {
            let mut lines = Vec::new();
            let acquire = Operation::on_lock(OperationKind::Acquire, None, "a", 7);
            write_operations(&mut lines, 3, &[Operation { shared, ..acquire }]).unwrap();
            String::from_utf8(lines).unwrap()
        };
        assert!(acquire(true).contains(r#""fence":7,"shared":true"#));
        assert!(!acquire(false).contains("shared"));
    }
}
