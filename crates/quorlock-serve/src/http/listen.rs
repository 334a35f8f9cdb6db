//! The addresses that a sidecar listens on: TCP addresses, and sockets in the file system.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tokio::net::{TcpListener, UnixListener};

/// The longest path that a socket may have on every system.
const MAX_PATH: usize = 100;

/// An address to listen on: `ADDR:PORT` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// A text is not an address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` cannot be listened on; write ADDR:PORT such as 127.0.0.1:7420 or [::1]:7420, or unix:PATH")]
pub struct AddressError {
    text: String,
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Other machines could reach it, and any of them could acquire locks.
    #[error(
        "{address} can be reached by others, so callers must authenticate; give a token file or a client CA, or listen on 127.0.0.1"
    )]
    Unprotected {
        /// The address.
        address: Address,
    },
    /// Another program listens there already.
    #[error("{address} is in use; stop the program that listens there, or choose another address")]
    InUse {
        /// The address.
        address: Address,
    },
    /// The path of a socket is another kind of file.
    #[error("`{}` exists and is not a socket; remove it, or choose another path", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// The path of a socket is too long.
    #[error("the path `{}` is too long for a socket; choose one of at most 100 bytes", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{address} cannot be listened on: {source}")]
    Refused {
        /// The address.
        address: Address,
        /// What the operating system said.
        source: io::Error,
    },
}

impl Address {
    /// Whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Tcp(address) => address.ip().is_loopback(),
            Address::Unix(_) => true,
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let bad = || AddressError { text: text.to_owned() };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(bad()) } else { Ok(Address::Unix(path.into())) };
        }
        let named = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        let mut found = named.as_deref().unwrap_or(text).to_socket_addrs().map_err(|_| bad())?;
        found.next().map(Address::Tcp).ok_or_else(bad)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// Starts to listen.
    pub(crate) async fn bind(address: &Address) -> Result<Self, ListenError> {
        let refused = |source: io::Error| match source.kind() {
            ErrorKind::AddrInUse => ListenError::InUse { address: address.clone() },
            _ => ListenError::Refused { address: address.clone(), source },
        };
        match address {
            Address::Tcp(tcp) => Ok(Self::Tcp(TcpListener::bind(tcp).await.map_err(refused)?)),
            Address::Unix(path) => {
                check_path(path)?;
                let (listener, file) = bind_unix(path).map_err(refused)?;
                Ok(Self::Unix(listener, file))
            }
        }
    }

    /// Where it listens, with the port that was chosen for port 0.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Listener::Unix(_, file) => Ok(Address::Unix(file.path.clone())),
        }
    }
}

/// A socket's file, removed when this is dropped if it is still ours.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Checks that no program listens at `path`, and that nothing but an old socket is there.
fn check_path(path: &Path) -> Result<(), ListenError> {
    if path.as_os_str().len() > MAX_PATH {
        return Err(ListenError::TooLong { path: path.to_owned() });
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => Err(ListenError::NoSocket { path: path.to_owned() }),
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            // No program listens: the one that made it ended without removing it.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
            _ => Err(ListenError::InUse { address: Address::Unix(path.to_owned()) }),
        },
        Err(_) => Ok(()),
    }
}

/// Makes the socket under a temporary name, for its owner alone, and renames it, replacing an old one.
fn bind_unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let _ = fs::remove_file(&temporary);
    let listener = UnixListener::bind(&temporary)?;
    let placed = fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::symlink_metadata(&temporary))
        .and_then(|found| fs::rename(&temporary, path).map(|()| found.ino()));
    match placed {
        Ok(inode) => Ok((listener, SocketFile { path: path.to_owned(), inode })),
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            Err(error)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_known_to_be_local_or_not() {
        for (text, is_local) in [
            ("127.0.0.1:0", true),
            ("localhost:7420", true),
            ("[::1]:1", true),
            ("unix:/run/x", true),
            ("0.0.0.0:7420", false),
            ("[::]:7420", false),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().is_local(), is_local, "{text}");
        }
        for text in ["", "7420", "unix:", "127.0.0.1", "127.0.0.1:x", ":"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
