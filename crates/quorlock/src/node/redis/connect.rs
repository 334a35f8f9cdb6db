//! Opening a byte stream to a server: TCP, TLS or a Unix socket.

use super::tls::Tls;
use crate::node::NodeError;
use crate::node::url::Endpoint;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A byte stream to a server, whatever carries it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Where to connect, with everything read from disk already.
#[derive(Clone, Debug)]
pub(super) enum Address {
    Tcp { host: String, port: u16, tls: Option<Tls> },
    Unix(PathBuf),
}

impl Address {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, NodeError> {
        Ok(match endpoint {
            Endpoint::Unix(path) => Address::Unix(path.clone()),
            Endpoint::Tcp { host, port, tls } => Address::Tcp {
                host: host.clone(),
                port: *port,
                tls: tls.as_ref().map(|files| Tls::new(host, files)).transpose()?,
            },
        })
    }

    /// Opens the stream. It has no time limit of its own.
    pub(super) async fn open(&self) -> Result<Box<dyn Stream>, NodeError> {
        match self {
            Address::Unix(path) => open_unix(path).await,
            Address::Tcp { host, port, tls } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(unreachable)?;
                stream.set_nodelay(true).map_err(unreachable)?;
                let Some(tls) = tls else {
                    return Ok(Box::new(stream));
                };
                let stream = tls.connector.connect(tls.server.clone(), stream).await;
                stream
                    .map(|stream| Box::new(stream) as Box<dyn Stream>)
                    .map_err(|error| NodeError::Tls { reason: error.to_string().into() })
            }
        }
    }
}

#[cfg(unix)]
async fn open_unix(path: &std::path::Path) -> Result<Box<dyn Stream>, NodeError> {
    let stream = tokio::net::UnixStream::connect(path).await;
    Ok(Box::new(stream.map_err(unreachable)?))
}

#[cfg(not(unix))]
async fn open_unix(_: &std::path::Path) -> Result<Box<dyn Stream>, NodeError> {
    Err(unreachable(io::ErrorKind::Unsupported.into()))
}

fn unreachable(source: io::Error) -> NodeError {
    NodeError::Unreachable { source: Arc::new(source) }
}
