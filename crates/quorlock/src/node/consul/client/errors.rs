//! What the refusals of an agent mean.

use crate::node::NodeError;
use crate::node::engine::Failure;
use crate::node::server_text::server_text;
use hyper::StatusCode;
use std::sync::Arc;

/// What a token must be allowed to do, for messages.
const RIGHTS: &str = "the token needs `write` on the key_prefix of the locks, on the session `quorlock` and on the node `quorlock`";

/// Why an agent that answered `status` with `text` did not do what was asked. The secret token of the caller is
/// never part of the text.
pub(crate) fn refusal(status: StatusCode, text: &[u8], path: &str) -> Failure {
    let text = server_text(text);
    let message: Arc<str> = text.as_str().into();
    match status {
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => Failure::Unsent(denied(&text)),
        StatusCode::TOO_MANY_REQUESTS => Failure::Unsent(server(
            "the agent refuses further requests: raise `limits.http_max_conns_per_client` or its rate limits",
        )),
        StatusCode::BAD_REQUEST if text.contains("HTTP request to an HTTPS server") => {
            Failure::Unsent(NodeError::Tls { reason: "the agent speaks TLS there: use `consuls://`".into() })
        }
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => {
            Failure::Unsent(NodeError::Protocol { reason: message })
        }
        StatusCode::INTERNAL_SERVER_ERROR if text.contains("Session TTL") => {
            let message = format!("{text}; see `session_ttl_min` of the servers").into();
            Failure::Unsent(NodeError::Server { message })
        }
        _ if text.contains("No cluster leader") => {
            Failure::Unknown(server("no server leads: more than half of them must be up and see each other"))
        }
        // A server may have executed it before it failed.
        _ if status.is_server_error() && !text.is_empty() => Failure::Unknown(NodeError::Server { message }),
        _ => Failure::Unknown(NodeError::Protocol {
            reason: format!("{path} answered {status}; it must be the HTTP port of a Consul agent").into(),
        }),
    }
}

/// What an agent that denies a right with `text` means.
pub(crate) fn denied(text: &str) -> NodeError {
    if text.contains("ACL not found") {
        NodeError::NoAuth { message: "the cluster does not know the token".into() }
    } else {
        NodeError::NoPermission { message: format!("{text}; {RIGHTS}").into() }
    }
}

/// Whether a refused operation was refused for lack of a right.
pub(crate) fn is_denied(what: &str) -> bool {
    what.contains("Permission denied") || what.contains("ACL not found")
}

fn server(message: &str) -> NodeError {
    NodeError::Server { message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_distinguished() {
        let table = [
            (403, "Permission denied", "no_permission", true),
            (403, "ACL not found", "no_auth", true),
            (429, "", "server", true),
            (400, "Client sent an HTTP request to an HTTPS server.", "tls", true),
            (400, "Failed to parse body", "protocol", true),
            (500, "No cluster leader", "server", false),
            (500, "Invalid Session TTL '1000000000', must be between [10s=24h0m0s]", "server", true),
            (500, "rpc error making call: leadership lost while committing log", "server", false),
            (502, "", "protocol", false),
            (200, "<html>", "protocol", false),
        ];
        for (status, text, kind, is_unsent) in table {
            let failure = refusal(StatusCode::from_u16(status).unwrap(), text.as_bytes(), "/v1/txn");
            assert_eq!(failure.error().kind(), kind, "{status} {text}");
            assert_eq!(matches!(failure, Failure::Unsent(_)), is_unsent, "{status} {text}");
        }
    }

    #[test]
    fn a_refusal_is_printable_and_says_which_rights_are_needed() {
        let failure = refusal(StatusCode::FORBIDDEN, b"\x1b[2JPermission denied\n", "/v1/txn");
        let text = failure.error().to_string();
        assert!(
            text.starts_with("permission denied: \u{fffd}[2JPermission denied; the token needs"),
            "{text}"
        );
    }
}
