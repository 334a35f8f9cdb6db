//! The operations that we ask of ZooKeeper, and its codes of refusal.

use crate::node::NodeError;
use crate::node::server_text::server_text;
use crate::node::zookeeper::client::jute::Write;
use bytes::{BufMut, BytesMut};

/// All rights on a znode.
const ALL_RIGHTS: i32 = 31;
/// A watch that stays, on a znode and everything below it.
const PERSISTENT_RECURSIVE: i32 = 1;
/// Watches of every kind.
const ANY_WATCH: i32 = 3;

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation<'a> {
    /// Creates a persistent znode; answers its path and its stat.
    Create {
        path: &'a str,
        data: &'a [u8],
        /// Whether only the user that creates it may use it.
        private: bool,
    },
    Delete {
        path: &'a str,
        version: i32,
    },
    Exists(&'a str),
    /// Answers data and stat.
    Read(&'a str),
    /// Answers the stat.
    Write {
        path: &'a str,
        data: &'a [u8],
        /// The version that it must have; -1 for any.
        version: i32,
    },
    /// Answers the names of the children and the stat.
    Children(&'a str),
    /// Makes the member catch up with the leader before it answers what follows.
    Sync(&'a str),
    Watch(&'a str),
    Unwatch(&'a str),
    /// All of these or none.
    All(&'a [Operation<'a>]),
    /// Whether the data has this version.
    Check {
        path: &'a str,
        version: i32,
    },
    Ping,
    Close,
}

impl Operation<'_> {
    pub(crate) fn code(&self) -> i32 {
        match self {
            Operation::Create { .. } => 15,
            Operation::Delete { .. } => 2,
            Operation::Exists(_) => 3,
            Operation::Read(_) => 4,
            Operation::Write { .. } => 5,
            Operation::Children(_) => 12,
            Operation::Sync(_) => 9,
            Operation::All(_) => 14,
            Operation::Check { .. } => 13,
            Operation::Watch(_) => 106,
            Operation::Unwatch(_) => 18,
            Operation::Ping => 11,
            Operation::Close => -11,
        }
    }

    pub(crate) fn encode(&self, out: &mut BytesMut) {
        match self {
            Operation::Create { path, data, private } => {
                out.text(path);
                out.buffer(data);
                out.put_i32(1);
                out.put_i32(ALL_RIGHTS);
                let (scheme, id) = if *private { ("auth", "") } else { ("world", "anyone") };
                out.text(scheme);
                out.text(id);
                out.put_i32(0);
            }
            Operation::All(operations) => {
                for operation in *operations {
                    put_part(out, operation.code(), false);
                    operation.encode(out);
                }
                put_part(out, -1, true);
            }
            Operation::Delete { path, version } | Operation::Check { path, version } => {
                out.text(path);
                out.put_i32(*version);
            }
            Operation::Exists(path) | Operation::Read(path) | Operation::Children(path) => {
                out.text(path);
                out.flag(false);
            }
            Operation::Write { path, data, version } => {
                out.text(path);
                out.buffer(data);
                out.put_i32(*version);
            }
            Operation::Sync(path) => out.text(path),
            Operation::Watch(path) => {
                out.text(path);
                out.put_i32(PERSISTENT_RECURSIVE);
            }
            Operation::Unwatch(path) => {
                out.text(path);
                out.put_i32(ANY_WATCH);
            }
            Operation::Ping | Operation::Close => {}
        }
    }
}

/// What stands before each operation of several, and behind the last.
fn put_part(out: &mut BytesMut, code: i32, is_last: bool) {
    out.put_i32(code);
    out.flag(is_last);
    out.put_i32(-1);
}

/// Why ZooKeeper did not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) i32);

impl Refusal {
    pub(crate) const NO_NODE: Self = Self(-101);
    pub(crate) const NO_AUTH: Self = Self(-102);
    pub(crate) const BAD_VERSION: Self = Self(-103);
    pub(crate) const NODE_EXISTS: Self = Self(-110);
    pub(crate) const INVALID_ACL: Self = Self(-114);
    pub(crate) const AUTH_FAILED: Self = Self(-115);
    pub(crate) const UNIMPLEMENTED: Self = Self(-6);
    const SESSION_EXPIRED: Self = Self(-112);
    const SESSION_MOVED: Self = Self(-118);
    /// Another operation of several was refused.
    pub(crate) const INCONSISTENT: Self = Self(-2);
    const READ_ONLY: Self = Self(-119);
    const SESSION_CLOSED_REQUIRE_AUTH: Self = Self(-124);
    const QUOTA_EXCEEDED: Self = Self(-125);
    const THROTTLED: Self = Self(-127);

    /// Whether it is certain that nothing was changed. Codes above -100 are failures of the servers
    /// themselves.
    pub(crate) fn is_definite(self) -> bool {
        self.0 <= -100 || self == Self::UNIMPLEMENTED
    }

    /// Whether the session cannot go on.
    pub(crate) fn ends_session(self) -> bool {
        matches!(self, Self::SESSION_EXPIRED | Self::SESSION_MOVED | Self::AUTH_FAILED)
    }

    /// What it means for an operation on `path`.
    pub(crate) fn cause(self, path: &str) -> NodeError {
        let on = server_text(path);
        match self {
            Self::NO_AUTH => {
                let message =
                    format!("the access list of `{on}` or of the znode above it does not let this user in");
                NodeError::NoPermission { message: message.into() }
            }
            Self::AUTH_FAILED | Self::SESSION_CLOSED_REQUIRE_AUTH => {
                NodeError::NoAuth { message: "it refused the user or wants one".into() }
            }
            Self::INVALID_ACL => {
                NodeError::NoAuth { message: "it did not accept the user for access lists".into() }
            }
            Self::READ_ONLY => {
                NodeError::ReadOnly { message: "the member sees no majority of the others".into() }
            }
            Self::QUOTA_EXCEEDED => NodeError::OutOfMemory { message: format!("the quota of `{on}`").into() },
            Self::UNIMPLEMENTED => NodeError::Server { message: "ZooKeeper 3.6 or newer is needed".into() },
            Self::THROTTLED => {
                NodeError::Server { message: "it is overloaded and throttles requests".into() }
            }
            Self(code) => NodeError::Server { message: format!("code {code} for `{on}`").into() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        for (code, kind, definite) in [
            (Refusal::NO_AUTH, "no_permission", true),
            (Refusal::AUTH_FAILED, "no_auth", true),
            (Refusal::READ_ONLY, "read_only", true),
            (Refusal::UNIMPLEMENTED, "server", true),
            (Refusal(-4), "server", false),
            (Refusal(-7), "server", false),
        ] {
            assert_eq!((code.cause("/a").kind(), code.is_definite()), (kind, definite), "{code:?}");
        }
    }
}
