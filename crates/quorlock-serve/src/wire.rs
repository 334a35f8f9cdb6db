//! A connection that tells its [`Delivery`] what was written, and does not write a grant to a caller that has gone.

use crate::delivery::Delivery;
use rustix::net::{RecvFlags, recv};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// A stream with a socket below it.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Whether a reset means that the other side ended without having read all that was written. Over a network it can
    /// mean other things, and a lock must not be taken from somebody who has read that it is theirs.
    const TELLS_UNREAD: bool;

    fn socket(&self) -> BorrowedFd<'_>;
}

impl Socket for TcpStream {
    const TELLS_UNREAD: bool = false;

    fn socket(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl Socket for UnixStream {
    const TELLS_UNREAD: bool = cfg!(target_os = "linux");

    fn socket(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl Socket for TlsStream<TcpStream> {
    const TELLS_UNREAD: bool = false;

    fn socket(&self) -> BorrowedFd<'_> {
        self.get_ref().0.as_fd()
    }
}

/// A stream of bytes to a caller.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    stream: S,
    delivery: Arc<Delivery>,
}

impl<S: Socket> Wire<S> {
    pub(crate) fn new(stream: S, delivery: Arc<Delivery>) -> Self {
        Self { stream, delivery }
    }

    /// Fails if a grant is about to be written to a caller that hung up before.
    fn check(&self) -> io::Result<()> {
        if self.delivery.is_pending() && has_hung_up(self.stream.socket()) {
            return Err(io::Error::new(ErrorKind::BrokenPipe, "the caller went away before its answer"));
        }
        Ok(())
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.delivery.note_written();
        }
        written
    }
}

/// Whether the other side has closed the connection, and all that it sent was read.
fn has_hung_up(socket: BorrowedFd<'_>) -> bool {
    let mut byte = [0; 1];
    let seen = recv(socket, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    !matches!(seen, Ok((1.., _)) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR))
}

impl<S: Socket> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        match &read {
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::ConnectionReset => {
                self.delivery.note_unread()
            }
            Poll::Ready(_) => self.delivery.note_heard(),
            Poll::Pending => {}
        }
        read
    }
}

impl<S: Socket> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.delivery.note_flushed(S::TELLS_UNREAD);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
