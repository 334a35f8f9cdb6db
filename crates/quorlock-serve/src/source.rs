//! The other end of a connection, for logs and the journal.

use std::fmt;
use std::net::SocketAddr;
use tokio::net::UnixStream;

/// From which process or address a request came. Each request has it as an extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Source {
    /// An address of the network.
    Tcp(SocketAddr),
    /// A process on this machine, as the kernel knows it.
    Unix { uid: u32, pid: Option<i32> },
    /// The program that embeds the sidecar does not say.
    #[default]
    Unknown,
}

/// Marks requests that came over TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encrypted;

impl Source {
    /// The process at the other end of a socket in the file system.
    pub(crate) fn of_unix(stream: &UnixStream) -> Self {
        match stream.peer_cred() {
            Ok(peer) => Self::Unix { uid: peer.uid(), pid: peer.pid() },
            Err(_) => Self::Unknown,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix { uid, pid: Some(pid) } => write!(f, "unix:uid={uid},pid={pid}"),
            Self::Unix { uid, pid: None } => write!(f, "unix:uid={uid}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}
