//! How connections to servers are opened. The simulator replaces it by streams in memory.

#![cfg_attr(not(feature = "simulation"), allow(unreachable_pub))]

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A byte stream to a server, whatever carries it.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// An attempt to connect.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send + 'a>>;

/// Opens connections to servers. TLS and the protocol of the server run on top of them.
pub trait Connector: fmt::Debug + Send + Sync {
    /// Connects to `port` of `host`, in an attempt that may take `limit` in all; the caller enforces it.
    fn connect<'a>(&'a self, host: &'a str, port: u16, limit: Duration) -> Connecting<'a>;
}

/// Connects by TCP.
#[derive(Debug)]
pub(crate) struct TcpConnector;

impl Connector for TcpConnector {
    fn connect<'a>(&'a self, host: &'a str, port: u16, limit: Duration) -> Connecting<'a> {
        Box::pin(async move {
            let stream = connect(lookup_host((host, port)).await?, limit / 4).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
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
