//! A stream that reports to its [`Delivery`] what was written, and does not write a grant to a caller
//! that has gone.

use crate::http::delivery::Delivery;
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
    /// Whether a reset proves that the client ended without having read all that was written. Over a
    /// network a reset can have other causes, and a caller that has read its grant must keep the lock.
    const RESET_MEANS_UNREAD: bool;

    fn socket(&self) -> BorrowedFd<'_>;
}

impl Socket for TcpStream {
    const RESET_MEANS_UNREAD: bool = false;

    fn socket(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl Socket for UnixStream {
    const RESET_MEANS_UNREAD: bool = cfg!(target_os = "linux");

    fn socket(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl Socket for TlsStream<TcpStream> {
    const RESET_MEANS_UNREAD: bool = false;

    fn socket(&self) -> BorrowedFd<'_> {
        self.get_ref().0.as_fd()
    }
}

/// The stream of a connection.
#[derive(Debug)]
pub(crate) struct TrackedStream<S> {
    stream: S,
    delivery: Arc<Delivery>,
}

impl<S: Socket> TrackedStream<S> {
    pub(crate) fn new(stream: S, delivery: Arc<Delivery>) -> Self {
        Self { stream, delivery }
    }

    /// Fails if a grant is about to be written to a caller that has closed the connection.
    fn check(&self) -> io::Result<()> {
        if self.delivery.is_pending() && is_closed(self.stream.socket()) {
            return Err(io::Error::new(
                ErrorKind::BrokenPipe,
                "the caller closed the connection before its response",
            ));
        }
        Ok(())
    }

    fn track_write(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.delivery.on_write();
        }
        written
    }
}

/// Whether the client has closed the connection, and all that it sent was read.
fn is_closed(socket: BorrowedFd<'_>) -> bool {
    let mut byte = [0; 1];
    let seen = recv(socket, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    !matches!(seen, Ok((1.., _)) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR))
}

impl<S: Socket> AsyncRead for TrackedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        match &read {
            Poll::Ready(Err(error)) if error.kind() == ErrorKind::ConnectionReset => self.delivery.on_reset(),
            Poll::Ready(_) => self.delivery.on_read(),
            Poll::Pending => {}
        }
        read
    }
}

impl<S: Socket> AsyncWrite for TrackedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.track_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.track_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.delivery.on_flush(S::RESET_MEANS_UNREAD);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
