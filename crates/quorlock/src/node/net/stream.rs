//! Opening a byte stream to a server: TCP, TLS or a Unix socket.

use crate::context::connector::{Connector, Stream};
use crate::node::NodeError;
use crate::node::net::tls::Tls;
use crate::node::server_text::server_text;
use crate::node::url::Endpoint;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Where to connect, with everything read from disk already.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Tcp { connector: Arc<dyn Connector>, host: String, port: u16, tls: Option<Tls> },
    Unix(PathBuf),
}

impl Address {
    /// Where `endpoint` is; `connector` opens its TCP connections.
    pub(crate) fn new(endpoint: &Endpoint, connector: &Arc<dyn Connector>) -> Result<Self, NodeError> {
        Ok(match endpoint {
            Endpoint::Unix(path) => Address::Unix(path.clone()),
            Endpoint::Tcp { host, port, tls } => Address::Tcp {
                connector: connector.clone(),
                host: host.clone(),
                port: *port,
                tls: tls.as_ref().map(|files| Tls::new(host, files)).transpose()?,
            },
        })
    }

    /// The same, where TLS asks for `protocol` on top of it.
    #[cfg(feature = "etcd")]
    pub(crate) fn with_alpn(mut self, protocol: &[u8]) -> Self {
        if let Address::Tcp { tls: Some(tls), .. } = &mut self {
            *tls = tls.with_alpn(protocol);
        }
        self
    }

    /// Whether TLS protects the stream.
    #[cfg(feature = "etcd")]
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Address::Tcp { tls: Some(_), .. })
    }

    /// Opens the stream for an attempt that may take `limit` in all; the caller enforces it.
    pub(crate) async fn open(&self, limit: Duration) -> Result<Box<dyn Stream>, NodeError> {
        match self {
            Address::Unix(path) => open_unix(path).await,
            Address::Tcp { connector, host, port, tls } => {
                let stream = connector.connect(host, *port, limit).await.map_err(unreachable)?;
                let Some(tls) = tls else { return Ok(stream) };
                // A server without TLS waits for the rest of a command. A shorter limit here
                // distinguishes it from one that is mute.
                let limit = limit - limit / 10;
                match timeout(limit, tls.connector.connect(tls.server.clone(), stream)).await {
                    Ok(Ok(stream)) => Ok(Box::new(stream)),
                    Ok(Err(error)) => Err(NodeError::Tls { reason: server_text(error.to_string()).into() }),
                    Err(_) => Err(NodeError::Tls { reason: no_greeting(limit).into() }),
                }
            }
        }
    }
}

#[cfg(unix)]
async fn open_unix(path: &std::path::Path) -> Result<Box<dyn Stream>, NodeError> {
    let stream = tokio::net::UnixStream::connect(path).await;
    Ok(Box::new(stream.map_err(unreachable)?))
}

/// Only Unix has such sockets.
#[cfg(not(unix))]
async fn open_unix(_path: &std::path::Path) -> Result<Box<dyn Stream>, NodeError> {
    Err(unreachable(io::ErrorKind::Unsupported.into()))
}

fn no_greeting(limit: Duration) -> String {
    format!(
        "the server did not answer the greeting within {limit:?}; a port without TLS needs the scheme without TLS, such as `redis://`"
    )
}

fn unreachable(source: io::Error) -> NodeError {
    NodeError::Unreachable { source: Arc::new(source) }
}
