//! Opening a byte stream to a server: TCP, TLS or a Unix socket.

use super::NodeError;
use super::tls::Tls;
use super::url::Endpoint;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

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

    /// Opens the stream for an attempt that may take `limit` in all, which is for the caller to see to.
    pub(super) async fn open(&self, limit: Duration) -> Result<Box<dyn Stream>, NodeError> {
        match self {
            Address::Unix(path) => open_unix(path).await,
            Address::Tcp { host, port, tls } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(unreachable)?;
                stream.set_nodelay(true).map_err(unreachable)?;
                let Some(tls) = tls else {
                    return Ok(Box::new(stream));
                };
                // A server without TLS waits for the rest of a command, and is to be told from one that is mute.
                let limit = limit - limit / 10;
                match timeout(limit, tls.connector.connect(tls.server.clone(), stream)).await {
                    Ok(Ok(stream)) => Ok(Box::new(stream)),
                    Ok(Err(error)) => Err(NodeError::Tls { reason: error.to_string().into() }),
                    Err(_) => Err(NodeError::Tls { reason: no_greeting(limit).into() }),
                }
            }
        }
    }
}

async fn open_unix(path: &std::path::Path) -> Result<Box<dyn Stream>, NodeError> {
    let stream = tokio::net::UnixStream::connect(path).await;
    Ok(Box::new(stream.map_err(unreachable)?))
}

fn no_greeting(limit: Duration) -> String {
    format!("the server did not answer the greeting within {limit:?}; a port without TLS is a `redis://` one")
}

fn unreachable(source: io::Error) -> NodeError {
    NodeError::Unreachable { source: Arc::new(source) }
}
