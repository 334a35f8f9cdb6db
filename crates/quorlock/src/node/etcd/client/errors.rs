//! Why etcd gives no answer, or refuses.

use crate::node::NodeError;
use crate::node::server_text::server_text;
use serde::Deserialize;
use std::sync::Arc;

/// Codes of gRPC, by which etcd distinguishes its errors.
const INVALID_ARGUMENT: i64 = 3;
const NOT_FOUND: i64 = 5;
const ALREADY_EXISTS: i64 = 6;
const PERMISSION_DENIED: i64 = 7;
const RESOURCE_EXHAUSTED: i64 = 8;
const FAILED_PRECONDITION: i64 = 9;
const UNAUTHENTICATED: i64 = 16;

/// Why a request was refused, as etcd reports it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ApiError {
    pub(crate) code: i64,
    error: String,
    message: String,
}

/// Why a call has no answer.
pub(crate) enum CallError {
    /// The cluster refused.
    Refused(ApiError),
    Failed(NodeError),
}

impl From<NodeError> for CallError {
    fn from(error: NodeError) -> Self {
        CallError::Failed(error)
    }
}

impl CallError {
    /// Whether any member would answer the same.
    pub(crate) fn is_definite(&self) -> bool {
        match self {
            CallError::Failed(_) => false,
            // It has just found its new leader.
            CallError::Refused(refusal) if refusal.server_text().contains("leader changed") => true,
            CallError::Refused(refusal) => matches!(
                refusal.code,
                INVALID_ARGUMENT
                    | NOT_FOUND
                    | ALREADY_EXISTS
                    | PERMISSION_DENIED
                    | RESOURCE_EXHAUSTED
                    | FAILED_PRECONDITION
                    | UNAUTHENTICATED
            ),
        }
    }

    pub(crate) fn cause(self) -> NodeError {
        match self {
            CallError::Failed(error) => error,
            CallError::Refused(refusal) => refusal.cause(),
        }
    }
}

impl ApiError {
    pub(crate) fn server_text(&self) -> &str {
        if self.message.is_empty() { &self.error } else { &self.message }
    }

    pub(crate) fn is_expired_token(&self) -> bool {
        self.code == UNAUTHENTICATED || self.server_text().contains("revision of auth store is old")
    }

    fn cause(&self) -> NodeError {
        let text = self.server_text();
        let message: Arc<str> = server_text(text).into();
        match self.code {
            UNAUTHENTICATED => NodeError::NoAuth { message },
            INVALID_ARGUMENT if text.contains("user name is empty") => {
                NodeError::NoAuth { message: "it wants a user and a password".into() }
            }
            INVALID_ARGUMENT if text.contains("authentication failed") => NodeError::NoAuth { message },
            PERMISSION_DENIED => NodeError::NoPermission { message },
            _ if text.contains("no leader") => NodeError::Server {
                message: "no member leads: more than half of them must be up and see each other".into(),
            },
            RESOURCE_EXHAUSTED if text.contains("space") => NodeError::OutOfMemory { message },
            _ => NodeError::Server { message },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_printable() {
        let refusal =
            ApiError { code: 7, message: "\u{1b}[2J\n\u{202e}no".to_owned(), ..ApiError::default() };
        assert_eq!(refusal.cause().to_string(), "permission denied: \u{fffd}[2J\u{fffd}\u{fffd}no");
    }

    #[test]
    fn refusals_are_distinguished() {
        let table = [
            (r#"{"error":"etcdserver: user name is empty","code":3}"#, "no_auth"),
            (
                r#"{"message":"etcdserver: authentication failed, invalid user ID or password","code":3}"#,
                "no_auth",
            ),
            (r#"{"message":"etcdserver: invalid auth token","code":16}"#, "no_auth"),
            (r#"{"message":"etcdserver: permission denied","code":7}"#, "no_permission"),
            (r#"{"message":"etcdserver: mvcc: database space exceeded","code":8}"#, "out_of_memory"),
            (r#"{"message":"etcdserver: too many requests","code":8}"#, "server"),
            (r#"{"error":"etcdserver: no leader","code":14}"#, "server"),
        ];
        for (body, kind) in table {
            let refusal: ApiError = serde_json::from_str(body).unwrap();
            assert_eq!(refusal.cause().kind(), kind, "{body}");
        }
    }
}
