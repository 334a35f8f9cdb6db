//! What an error of PostgreSQL means, and whether the statement can have taken effect.

use crate::node::NodeError;
use crate::node::engine::Failure;
use crate::node::server_text::server_text;
use std::error::Error as _;
use std::io;
use std::sync::Arc;
use tokio_postgres::Error;

/// The code by which PgBouncer refuses a parameter of the greeting.
pub(crate) const PROTOCOL_VIOLATION: &str = "08P01";
/// A row was locked for too long.
pub(crate) const LOCK_TIMEOUT: &str = "55P03";

/// Classes of errors after which a statement was rolled back. Others may come after its commit.
const ROLLED_BACK: [&str; 10] = ["0A", "22", "23", "25", "28", "3F", "40", "42", "53", "55"];

/// The code of an error of the server.
pub(crate) fn code(error: &Error) -> Option<&str> {
    error.code().map(|state| state.code())
}

/// What became of the statement that failed with `error`.
pub(crate) fn failure(error: &Error, schema: &str) -> Failure {
    let cause = cause(error, schema);
    match code(error) {
        Some(code) if ROLLED_BACK.iter().any(|class| code.starts_with(class)) => Failure::Unsent(cause),
        _ => Failure::Unknown(cause),
    }
}

/// What `error` means to an operator.
pub(crate) fn cause(error: &Error, schema: &str) -> NodeError {
    let Some(found) = error.as_db_error() else { return broken(error) };
    let message: Arc<str> = server_text(found.message()).into();
    match found.code().code() {
        "25006" => NodeError::Standby,
        // No such function, table or schema.
        "42883" | "42P01" | "3F000" => NodeError::Schema { schema: schema.into(), found: None },
        "42501" => NodeError::NoPermission { message },
        "53100" => NodeError::Misconfigured { message },
        "53200" => NodeError::OutOfMemory { message },
        "57P03" => NodeError::Loading,
        code if code.starts_with("28") => NodeError::NoAuth { message },
        _ => NodeError::Server { message },
    }
}

/// The connection failed.
fn broken(error: &Error) -> NodeError {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let text = error.to_string();
    match source {
        _ if text.contains("TLS") => {
            let reason = source.map_or_else(|| text.clone(), |source| format!("{text}: {source}"));
            NodeError::Tls { reason: server_text(reason).into() }
        }
        Some(source) => {
            let source = Arc::new(io::Error::new(source.kind(), server_text(source.to_string())));
            NodeError::Disconnected { source }
        }
        None if error.is_closed() => NodeError::Disconnected { source: Arc::new(closed()) },
        None => NodeError::Protocol { reason: server_text(text).into() },
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the server closed the connection")
}
