//! Opening a byte stream to a server: TCP, TLS or a Unix socket.

use crate::node::NodeError;
use crate::node::net::tls::Tls;
use crate::node::server_text::server_text;
use crate::node::url::Endpoint;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A byte stream to a server, whatever carries it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Where to connect, with everything read from disk already.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Tcp { host: String, port: u16, tls: Option<Tls> },
    Unix(PathBuf),
}

impl Address {
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, NodeError> {
        Ok(match endpoint {
            Endpoint::Unix(path) => Address::Unix(path.clone()),
            Endpoint::Tcp { host, port, tls } => Address::Tcp {
                host: host.clone(),
                port: *port,
                tls: tls.as_ref().map(|files| Tls::new(host, files)).transpose()?,
            },
        })
    }

    /// Opens the stream for an attempt that may take `limit` in all; the caller enforces it.
    pub(crate) async fn open(&self, limit: Duration) -> Result<Box<dyn Stream>, NodeError> {
        match self {
            Address::Unix(path) => open_unix(path).await,
            Address::Tcp { host, port, tls } => {
                let addresses = lookup_host((host.as_str(), *port)).await.map_err(unreachable)?;
                let stream = connect(addresses, limit / 4).await.map_err(unreachable)?;
                stream.set_nodelay(true).map_err(unreachable)?;
                let Some(tls) = tls else {
                    return Ok(Box::new(stream));
                };
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

/// Connects to the first of `addresses` that answers. The next one is tried as well once one has failed
/// or taken `delay`: a host whose first address leads nowhere is reached by the second (RFC 8305).
async fn connect(addresses: impl Iterator<Item = SocketAddr>, delay: Duration) -> io::Result<TcpStream> {
    let mut untried = alternate(addresses).into_iter();
    let mut attempts = JoinSet::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    loop {
        let is_last = match untried.next() {
            Some(address) => {
                attempts.spawn(TcpStream::connect(address));
                false
            }
            None => true,
        };
        let delay = if is_last { Duration::MAX } else { delay };
        match timeout(delay, attempts.join_next()).await {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            Ok(Some(Ok(Err(error)))) => failure = error,
            // The runtime is shutting down.
            Ok(Some(Err(error))) => failure = io::Error::other(error),
            Ok(None) => return Err(failure),
            Err(_) => {}
        }
    }
}

/// Addresses of the two families alternately, in the order of each.
fn alternate(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let addresses: Vec<SocketAddr> = addresses.collect();
    let starts_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == starts_v6);
    let longest = first.len().max(other.len());
    (0..longest).flat_map(|at| [first.get(at), other.get(at)]).flatten().copied().collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// An address that accepts no connection: its queue is full, and nothing takes from it.
    fn silent() -> (TcpListener, Vec<std::net::TcpStream>, SocketAddr) {
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None)
                .unwrap();
        rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            waiting.push(stream);
            assert!(waiting.len() < 100, "the queue is never full");
        }
        (listener, waiting, address)
    }

    /// Goal: a host whose first address leads nowhere is reached by its second long before the first is
    /// given up.
    #[tokio::test]
    async fn an_address_that_does_not_answer_does_not_block_the_next() {
        let (_listener, _waiting, silent) = silent();
        let good = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = [silent, good.local_addr().unwrap()];
        let connecting = connect(addresses.into_iter(), Duration::from_millis(50));
        let stream =
            timeout(Duration::from_secs(20), connecting).await.expect("it waits for the first").unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addresses[1]);
    }

    #[tokio::test]
    async fn an_address_that_refuses_is_followed_by_the_next_at_once_and_the_last_one_says_why() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let good = TcpListener::bind("127.0.0.1:0").unwrap();
        let (long, addresses) = (Duration::from_secs(60), [gone, good.local_addr().unwrap()]);
        let stream = timeout(Duration::from_secs(20), connect(addresses.into_iter(), long)).await.unwrap();
        assert_eq!(stream.unwrap().peer_addr().unwrap(), addresses[1]);
        let refused = connect([gone].into_iter(), long).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(connect([].into_iter(), long).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_families_alternate() {
        let parse = |text: &str| text.split(' ').map(|it| it.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let given = parse("[::1]:1 [::2]:1 [::3]:1 1.1.1.1:1");
        assert_eq!(alternate(given.into_iter()), parse("[::1]:1 1.1.1.1:1 [::2]:1 [::3]:1"));
    }
}
