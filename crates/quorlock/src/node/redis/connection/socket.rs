//! One connection: bytes out, replies in.

use crate::context::connector::Stream;
use crate::node::NodeError;
use crate::node::redis::protocol::resp::{self, Value};
use crate::node::redis::protocol::server_errors::protocol;
use bytes::{Buf, BytesMut};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How much is read at once.
const READ_CHUNK: usize = 16 * 1024;

/// One connection with what it has still to write and what it has read but not yet returned.
pub(crate) struct Socket {
    stream: Box<dyn Stream>,
    /// What is to be written, emptied once all of it is.
    pub(crate) out: Vec<u8>,
    written: usize,
    input: BytesMut,
    /// How much of `input` has been returned.
    taken: usize,
    unflushed: bool,
    /// Whether a write had to wait, so that commands may have come in the meantime.
    is_blocked: bool,
}

impl Socket {
    pub(crate) fn new(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            out: Vec::new(),
            written: 0,
            input: BytesMut::with_capacity(READ_CHUNK),
            taken: 0,
            unflushed: false,
            is_blocked: false,
        }
    }

    /// Writes what is to be written and reads what has come, until at least one byte was read, or a write
    /// that had to wait is done, so that there is room for more.
    pub(crate) fn poll_exchange(&mut self, context: &mut Context<'_>) -> Poll<Result<(), NodeError>> {
        let was_blocked = self.is_blocked;
        self.is_blocked = self.poll_write_all(context).map_err(broken)?.is_pending();
        match self.poll_fill(context).map_err(broken)? {
            Poll::Ready(0) => Poll::Ready(Err(broken(io::ErrorKind::UnexpectedEof.into()))),
            Poll::Ready(_) => Poll::Ready(Ok(())),
            Poll::Pending if was_blocked && !self.is_blocked => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Writes what goes without waiting; the rest goes out with [`Socket::poll_exchange`].
    pub(crate) async fn begin_writing(&mut self) -> Result<(), NodeError> {
        poll_fn(|context| {
            self.is_blocked = self.poll_write_all(context).map_err(broken)?.is_pending();
            Poll::Ready(Ok(()))
        })
        .await
    }

    fn poll_write_all(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.out.len() {
            self.unflushed = true;
            match ready!(Pin::new(&mut self.stream).poll_write(context, &self.out[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        self.out.clear();
        self.written = 0;
        if self.unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.input.reserve(READ_CHUNK);
        pin!(self.stream.read_buf(&mut self.input)).poll(context)
    }

    /// The next whole reply that has been read.
    pub(crate) fn next_value(&mut self) -> Result<Option<Value>, NodeError> {
        match resp::read(&self.input[self.taken..]) {
            Ok(Some((value, length))) => {
                self.taken += length;
                Ok(Some(value))
            }
            Ok(None) => {
                self.input.advance(std::mem::take(&mut self.taken));
                Ok(None)
            }
            Err(garbage) => Err(protocol(garbage.to_string())),
        }
    }

    /// Consumes `expected`, if that is what was read next.
    pub(crate) fn take_exactly(&mut self, expected: &[u8]) -> bool {
        let is_next = self.input[self.taken..].starts_with(expected);
        if is_next {
            self.taken += expected.len();
        }
        is_next
    }

    /// Whether something was read and has not been returned.
    pub(crate) fn has_input(&mut self) -> bool {
        if self.taken == self.input.len() {
            self.input.clear();
            self.taken = 0;
        }
        !self.input.is_empty()
    }

    /// Whether everything was written.
    pub(crate) fn is_written(&self) -> bool {
        self.out.is_empty() && !self.unflushed
    }

    /// Writes everything and waits for the next reply that is no push: for the handshake.
    pub(crate) async fn reply(&mut self) -> Result<Value, NodeError> {
        loop {
            match self.next_value()? {
                Some(Value::Push(_)) => {}
                Some(value) => return Ok(value),
                None => poll_fn(|context| self.poll_exchange(context)).await?,
            }
        }
    }

    /// Writes as much as goes without waiting, for a connection that is given up.
    pub(crate) fn write_now(&mut self) {
        let _ = self.poll_write_all(&mut Context::from_waker(Waker::noop()));
    }

    /// Ends the stream as TLS requires, for at most `limit`: a server that does not read would never get
    /// it. Failure does not matter any more.
    pub(crate) async fn close(&mut self, limit: Duration) {
        let _ = timeout(limit, self.stream.shutdown()).await;
    }
}

pub(crate) fn broken(source: io::Error) -> NodeError {
    NodeError::Disconnected { source: Arc::new(source) }
}
