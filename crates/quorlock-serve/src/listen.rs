//! Where a sidecar listens: addresses of the network, and sockets in the file system.

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
    /// An address of the network.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// A text is no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` cannot be listened on; write ADDR:PORT such as 127.0.0.1:7420 or [::1]:7420, or unix:PATH")]
pub struct AddressError {
    text: String,
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Others could reach it, and nothing would keep them from taking locks.
    #[error(
        "{address} can be reached by others, so callers must show who they are; give a token file or a client CA, or listen on 127.0.0.1"
    )]
    Unprotected {
        /// The address.
        address: Address,
    },
    /// Somebody listens there already.
    #[error("{address} is in use; stop what listens there, or choose another address")]
    InUse {
        /// The address.
        address: Address,
    },
    /// Something else is in the place of a socket.
    #[error("`{}` exists and is no socket; remove it, or choose another path", path.display())]
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
    /// The system refuses.
    #[error("{address} cannot be listened on: {source}")]
    Refused {
        /// The address.
        address: Address,
        /// What the operating system said.
        source: io::Error,
    },
}

impl Address {
    /// Whether nobody but this machine can reach it.
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

/// A socket that listens.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// Begins to listen.
    pub(crate) async fn bind(address: &Address) -> Result<Self, ListenError> {
        let refused = |source: io::Error| match source.kind() {
            ErrorKind::AddrInUse => ListenError::InUse { address: address.clone() },
            _ => ListenError::Refused { address: address.clone(), source },
        };
        match address {
            Address::Tcp(tcp) => Ok(Self::Tcp(TcpListener::bind(tcp).await.map_err(refused)?)),
            Address::Unix(path) => {
                make_way(path)?;
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

/// Makes sure that nobody listens at `path`, and that nothing but an old socket is there.
fn make_way(path: &Path) -> Result<(), ListenError> {
    if path.as_os_str().len() > MAX_PATH {
        return Err(ListenError::TooLong { path: path.to_owned() });
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => Err(ListenError::NoSocket { path: path.to_owned() }),
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            // Nobody listens: whoever made it ended without removing it.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
            _ => Err(ListenError::InUse { address: Address::Unix(path.to_owned()) }),
        },
        Err(_) => Ok(()),
    }
}

/// Makes the socket aside, for its owner alone, and moves it to its place, which an old one may have.
fn bind_unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".{}", std::process::id()));
    let aside = PathBuf::from(aside);
    let _ = fs::remove_file(&aside);
    let listener = UnixListener::bind(&aside)?;
    let placed = fs::set_permissions(&aside, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::symlink_metadata(&aside))
        .and_then(|found| fs::rename(&aside, path).map(|()| found.ino()));
    match placed {
        Ok(inode) => Ok((listener, SocketFile { path: path.to_owned(), inode })),
        Err(error) => {
            let _ = fs::remove_file(&aside);
            Err(error)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_known_to_be_local_or_not() {
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
