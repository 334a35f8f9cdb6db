//! What a server's error text means.

use crate::node::NodeError;
use crate::node::server_text::server_text;
use std::sync::Arc;

/// The cause that a server's error text means.
pub(crate) fn classify(text: &[u8]) -> NodeError {
    let message: Arc<str> = server_text(text).into();
    let text = String::from_utf8_lossy(text);
    let text = text.trim();
    match code(text) {
        "READONLY" => NodeError::ReadOnly { message },
        "NOAUTH" | "WRONGPASS" => NodeError::NoAuth { message },
        "NOPERM" => NodeError::NoPermission { message },
        "OOM" => NodeError::OutOfMemory { message },
        "LOADING" => NodeError::Loading,
        "BUSY" => NodeError::Busy,
        "MISCONF" => NodeError::Misconfigured { message },
        "WRONGTYPE" => NodeError::WrongType { message },
        "CLUSTERDOWN" | "MOVED" | "ASK" | "CROSSSLOT" => NodeError::Cluster,
        // The error texts of a server before version 7, or without any password, to AUTH.
        "ERR" if text.contains("AUTH") && text.contains("password") => NodeError::NoAuth { message },
        // A right that a script lacks, as Redis and Valkey report it.
        "ERR"
            if text.contains("user executing the script can't") || text.contains("ACL failure in script") =>
        {
            NodeError::NoPermission { message }
        }
        _ => NodeError::Server { message },
    }
}

/// Whether the server does not know the script.
pub(crate) fn is_unknown_script(text: &[u8]) -> bool {
    text.starts_with(b"NOSCRIPT")
}

/// Whether the server does not know the command.
pub(crate) fn is_unknown_command(text: &[u8]) -> bool {
    text.to_ascii_lowercase().starts_with(b"err unknown command")
}

/// The code that an error starts with. Servers before version 7 wrap the errors of scripts:
/// `ERR Error running script (call to f_…): @user_script:1: WRONGTYPE Operation …`.
fn code(text: &str) -> &str {
    let first = |text| str::split_whitespace(text).next().unwrap_or_default();
    if text.starts_with("ERR Error running script") || text.starts_with("ERR user_script") {
        let cause = text
            .rsplit(": ")
            .map(|part| first(part).trim_start_matches('-'))
            .find(|word| word.len() > 2 && word.bytes().all(|b| b.is_ascii_uppercase()));
        return cause.unwrap_or("ERR");
    }
    first(text).trim_start_matches('-')
}

/// An answer that no proper server gives.
pub(crate) fn protocol(reason: impl Into<Arc<str>>) -> NodeError {
    NodeError::Protocol { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::server_text::MAX_TEXT;

    #[test]
    fn the_first_word_decides() {
        for (text, kind) in [
            ("READONLY You can't write against a read only replica.", "read_only"),
            ("NOAUTH Authentication required.", "no_auth"),
            ("WRONGPASS invalid username-password pair or user is disabled.", "no_auth"),
            ("NOPERM this user has no permissions to run the 'set' command", "no_permission"),
            (
                "ERR The user executing the script can't run this command or subcommand script: 0, on @user_script:1.",
                "no_permission",
            ),
            (
                "ERR ACL failure in script: User default has no permissions to run the 'zadd' command",
                "no_permission",
            ),
            ("OOM command not allowed when used memory > 'maxmemory'.", "out_of_memory"),
            ("LOADING Redis is loading the dataset in memory", "loading"),
            ("BUSY Redis is busy running a script. You can only call SCRIPT KILL", "busy"),
            ("MISCONF Redis is configured to save RDB snapshots", "misconfigured"),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", "wrong_type"),
            ("MOVED 3999 127.0.0.1:6381", "cluster"),
            ("ERR AUTH <password> called without any password configured", "no_auth"),
            ("ERR syntax error", "server"),
            ("", "server"),
        ] {
            assert_eq!(classify(text.as_bytes()).kind(), kind, "{text}");
        }
        assert_eq!(classify(&[0xff, 0xfe]).kind(), "server");
    }

    #[test]
    fn an_error_inside_a_script_is_the_same_error() {
        for (text, kind) in [
            (
                "ERR Error running script (call to f_6b1bf486): @user_script:1: WRONGTYPE Operation against",
                "wrong_type",
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'. script: 6b1b, on @user_script:1.",
                "out_of_memory",
            ),
            (
                "ERR Error running script (call to f_1): @user_script: 3: -OOM command not allowed",
                "out_of_memory",
            ),
        ] {
            assert_eq!(classify(text.as_bytes()).kind(), kind, "{text}");
        }
    }

    #[test]
    fn long_and_hostile_texts_are_cut_and_printable() {
        let hostile = [b"ERR \x1b[2J\n\xe2\x80\xae".as_slice(), &[b'x'; 10_000]].concat();
        let NodeError::Server { message } = classify(&hostile) else {
            panic!("another cause");
        };
        assert!(message.starts_with("ERR \u{fffd}[2J\u{fffd}\u{fffd}xx"), "{message:?}");
        assert_eq!(message.len(), MAX_TEXT);
    }
}
