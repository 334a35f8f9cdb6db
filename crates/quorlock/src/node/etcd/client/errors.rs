//! Why etcd gives no answer, or refuses.

use crate::node::NodeError;
use crate::node::engine::Failure;
use crate::node::server_text::server_text;
use std::sync::Arc;

/// Codes of gRPC, by which etcd distinguishes its errors.
const INVALID_ARGUMENT: u32 = 3;
const NOT_FOUND: u32 = 5;
const ALREADY_EXISTS: u32 = 6;
const PERMISSION_DENIED: u32 = 7;
const RESOURCE_EXHAUSTED: u32 = 8;
const FAILED_PRECONDITION: u32 = 9;
const UNIMPLEMENTED: u32 = 12;
const UNAUTHENTICATED: u32 = 16;

/// Why a request was refused, as etcd reports it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusal {
    pub(crate) code: u32,
    /// As the server sent it.
    pub(crate) message: String,
}

/// Why a call has no answer.
#[derive(Clone, Debug)]
pub(crate) enum CallError {
    /// The cluster refused.
    Refused(Refusal),
    /// It was not sent.
    Unsent(NodeError),
    /// Whether it was executed is not known.
    Failed(NodeError),
}

impl From<CallError> for NodeError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Failed(error) | CallError::Unsent(error) => error,
            CallError::Refused(refusal) => refusal.cause(),
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let is_unsent = error.is_unsent();
        let error = error.into();
        if is_unsent { Failure::Unsent(error) } else { Failure::Unknown(error) }
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unsent(error) => CallError::Unsent(error),
            Failure::Unknown(error) => CallError::Failed(error),
        }
    }
}

impl CallError {
    /// Whether it changed nothing, and never will.
    fn is_unsent(&self) -> bool {
        match self {
            CallError::Unsent(_) => true,
            CallError::Failed(_) => false,
            CallError::Refused(refusal) => refusal.is_for_good(),
        }
    }

    /// Whether any member would answer the same.
    pub(crate) fn is_definite(&self) -> bool {
        match self {
            CallError::Failed(_) | CallError::Unsent(_) => false,
            // It has just found its new leader.
            CallError::Refused(refusal) if refusal.message.contains("leader changed") => true,
            CallError::Refused(refusal) => refusal.is_for_good(),
        }
    }

    /// Whether one part of a transaction may be the cause, so that the others may succeed alone.
    pub(crate) fn may_be_of_one_part(&self) -> bool {
        let CallError::Refused(refusal) = self else { return false };
        matches!(refusal.code, INVALID_ARGUMENT | NOT_FOUND | PERMISSION_DENIED) && !refusal.is_of_login()
    }

    /// Whether a lease does not exist any more.
    pub(crate) fn is_lost_lease(&self) -> bool {
        matches!(self, CallError::Refused(refusal) if refusal.message.contains("lease not found"))
    }
}

impl Refusal {
    /// Whether the token of our user is not valid any more.
    pub(crate) fn is_expired_token(&self) -> bool {
        self.code == UNAUTHENTICATED || self.message.contains("revision of auth store is old")
    }

    /// Whether the cluster refused before it executed anything.
    fn is_for_good(&self) -> bool {
        matches!(
            self.code,
            INVALID_ARGUMENT
                | NOT_FOUND
                | ALREADY_EXISTS
                | PERMISSION_DENIED
                | RESOURCE_EXHAUSTED
                | FAILED_PRECONDITION
                | UNIMPLEMENTED
                | UNAUTHENTICATED
        )
    }

    fn is_of_login(&self) -> bool {
        self.is_expired_token()
            || self.message.contains("user name is empty")
            || self.message.contains("authentication failed")
    }

    fn cause(&self) -> NodeError {
        let text = &self.message;
        let message: Arc<str> = server_text(text).into();
        match self.code {
            UNAUTHENTICATED => NodeError::NoAuth { message },
            INVALID_ARGUMENT if text.contains("user name is empty") => NodeError::NoAuth {
                message: "it wants a user and a password, or a client certificate".into(),
            },
            INVALID_ARGUMENT if text.contains("authentication failed") => NodeError::NoAuth { message },
            PERMISSION_DENIED => NodeError::NoPermission { message },
            UNIMPLEMENTED => NodeError::Protocol {
                reason: format!("{message}; it must be the client port of etcd 3.4 or newer").into(),
            },
            _ if text.contains("no leader") => NodeError::Server {
                message: "no member leads: more than half of them must be up and see each other".into(),
            },
            RESOURCE_EXHAUSTED if text.contains("space") => NodeError::OutOfMemory { message },
            _ => NodeError::Server { message },
        }
    }
}

pub(crate) fn protocol(reason: impl Into<Arc<str>>) -> NodeError {
    NodeError::Protocol { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u32, message: &str) -> Refusal {
        Refusal { code, message: message.to_owned() }
    }

    #[test]
    fn a_refusal_is_printable() {
        let error = refusal(7, "\u{1b}[2J\n\u{202e}no").cause();
        assert_eq!(error.to_string(), "permission denied: \u{fffd}[2J\u{fffd}\u{fffd}no");
    }

    #[test]
    fn refusals_are_distinguished() {
        let table = [
            (3, "etcdserver: user name is empty", "no_auth", true),
            (3, "etcdserver: authentication failed, invalid user ID or password", "no_auth", true),
            (16, "etcdserver: invalid auth token", "no_auth", true),
            (7, "etcdserver: permission denied", "no_permission", true),
            (8, "etcdserver: mvcc: database space exceeded", "out_of_memory", true),
            (8, "etcdserver: too many requests", "server", true),
            (12, "unknown service", "protocol", true),
            (14, "etcdserver: no leader", "server", false),
            (14, "etcdserver: request timed out", "server", false),
            (13, "whatever", "server", false),
        ];
        for (code, text, kind, is_unsent) in table {
            let error = CallError::Refused(refusal(code, text));
            assert_eq!(error.is_unsent(), is_unsent, "{text}");
            assert_eq!(NodeError::from(error).kind(), kind, "{text}");
        }
    }
}
