//! The client's end of a connection, as the shipped link uses it.

use crate::simulator::network::Path;
use quorlock::{Connecting, Connector, Stream};
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Connects a client process to its servers, by the names `node0`, `node1` and so on.
#[derive(Debug)]
pub(crate) struct SimConnector {
    pub(crate) paths: BTreeMap<usize, Path>,
}

/// How the clients of a world log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogIn {
    /// Without a password, to the first database.
    Open,
    /// With a password, to another database.
    Password,
}

impl LogIn {
    pub(crate) fn password(self) -> Option<&'static str> {
        (self == LogIn::Password).then_some("secret")
    }

    pub(crate) fn database(self) -> usize {
        if self == LogIn::Password { 3 } else { 0 }
    }

    /// The address of a server.
    pub(crate) fn url(self, node: usize) -> String {
        let credentials = self.password().map(|password| format!(":{password}@")).unwrap_or_default();
        format!("redis://{credentials}node{node}:6379/{}", self.database())
    }
}

impl Connector for SimConnector {
    fn connect<'a>(&'a self, host: &'a str, _port: u16, _limit: Duration) -> Connecting<'a> {
        Box::pin(async move {
            let node = host.strip_prefix("node").and_then(|number| number.parse().ok());
            let path = node.and_then(|node: usize| self.paths.get(&node));
            let path = path.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            let number = path.connect().await?;
            Ok(Box::new(SimStream { path: path.clone(), number }) as Box<dyn Stream>)
        })
    }
}

/// One connection. Dropping it closes the connection.
#[derive(Debug)]
struct SimStream {
    path: Path,
    number: u64,
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.path.poll_read(self.number, context, buffer)
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.path.poll_write(self.number, context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.path.close(self.number);
    }
}
