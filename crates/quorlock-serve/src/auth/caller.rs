//! The sender of a request.

use crate::auth::scope::Scope;
use axum::http::Extensions;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::UnixStream;

/// The sender of a request, with what it may do.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) scope: Scope,
    /// The name of the secret that the request carried.
    pub(crate) secret: Option<Arc<str>>,
    pub(crate) peer: Peer,
    pub(crate) source: Source,
}

/// Through which kind of address a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Peer {
    /// A socket in the file system, which only its owner may open.
    Unix,
    /// An address that only this machine can reach.
    Loopback,
    /// An address that other machines can reach.
    Remote,
}

/// The process or address that a request came from, for logs and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Source {
    /// An address of the network.
    Tcp(SocketAddr),
    /// A process on this machine, as the kernel identifies it.
    Unix { uid: u32, pid: Option<i32> },
    /// The program that embeds the sidecar does not say.
    #[default]
    Unknown,
}

/// How a request came to the sidecar. Each request carries it as an extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ingress {
    pub(crate) peer: Peer,
    pub(crate) source: Source,
    /// Whether it came over TLS.
    pub(crate) is_encrypted: bool,
}

impl Ingress {
    /// That of a request from `peer`, if nothing more is known.
    pub(crate) fn from(peer: Peer) -> Self {
        Self { peer, source: Source::Unknown, is_encrypted: false }
    }

    /// That of the request with these `extensions`.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or(Self::from(Peer::Remote))
    }
}

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
