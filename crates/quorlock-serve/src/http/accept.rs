//! Accepts connections, up to the limit, until the sidecar shuts down.

use crate::auth::caller::{Ingress, Peer, Source};
use crate::http::admission::{Admission, Admitted};
use crate::http::connection::{self, Client, ConnectionContext, Handler, OpenConnection};
use crate::http::listen::Listener;
use crate::http::tls::Certificates;
use crate::metrics;
use crate::problem::code::ProblemCode;
use quorlock::CancellationToken;
use rustix::net::{RecvFlags, recv, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

/// A client that acknowledges nothing for this long is gone.
const DEAD_AFTER: Duration = Duration::from_secs(15);
/// How long to pause when the system cannot accept another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The response to a connection that is not admitted. Its request is not read.
const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
connection: close\r\ncontent-length: 170\r\n\r\n\
{\"type\":\"urn:quorlock:full\",\"code\":\"full\",\"title\":\"The sidecar has no room\",\"status\":503,\
\"detail\":\"too many connections are open; close some, or raise --max-connections\"}";

/// What all listeners share.
#[derive(Clone, Debug)]
pub(crate) struct Acceptor {
    pub(crate) ctx: Arc<ConnectionContext>,
    pub(crate) tls: Option<Certificates>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) tasks: TaskTracker,
    /// Ends all connections at once when cancelled.
    pub(crate) abort: CancellationToken,
}

impl Acceptor {
    /// Accepts connections from `listener`, whose callers are `peer`, and serves them with `handler` until
    /// the sidecar shuts down.
    pub(crate) async fn run(self, listener: Listener, peer: Peer, handler: impl Handler) {
        let accepting = async {
            loop {
                let accepted = match &listener {
                    Listener::Tcp(listener) => {
                        let accepted = listener.accept().await;
                        accepted.map(|(stream, from)| self.serve_tcp(stream, from, peer, &handler))
                    }
                    Listener::Unix(listener, _) => {
                        let accepted = listener.accept().await;
                        accepted.map(|(stream, _)| self.serve_unix(stream, peer, &handler))
                    }
                };
                if let Err(error) = accepted {
                    tracing::warn!(target: "quorlock", %error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = self.ctx.closing.cancelled() => {}
            () = accepting => {}
        }
    }

    fn serve_tcp(&self, stream: TcpStream, from: SocketAddr, peer: Peer, handler: &impl Handler) {
        let Some(admitted) = self.admission.admit() else {
            metrics::count_problem(ProblemCode::Full.facts().0);
            let _ = stream.try_write(FULL.as_bytes());
            return;
        };
        if let Err(error) = configure(&stream) {
            tracing::debug!(target: "quorlock", %error, "a connection could not be configured");
        }
        let ingress = Ingress { peer, source: Source::Tcp(from), is_encrypted: self.tls.is_some() };
        let client = Client { admitted: admitted.clone(), ingress };
        let (ctx, tls, handler) = (self.ctx.clone(), self.tls.clone(), handler.clone());
        self.spawn(admitted, async move {
            let first = stream.async_io(Interest::READABLE, || peek(&stream));
            if !matches!(timeout(ctx.limits.first_byte, first).await, Ok(Ok(()))) {
                return;
            }
            let Some(tls) = tls else { return connection::serve(&ctx, stream, handler, client).await };
            let accepting = TlsAcceptor::from(tls.current()).accept(stream);
            let Ok(Ok(stream)) = timeout(ctx.limits.head, accepting).await else { return };
            if tls.verifies_callers() {
                client.admitted.mark_known();
            }
            connection::serve(&ctx, stream, handler, client).await;
        });
    }

    fn serve_unix(&self, stream: UnixStream, peer: Peer, handler: &impl Handler) {
        let Some(admitted) = self.admission.admit() else {
            metrics::count_problem(ProblemCode::Full.facts().0);
            let _ = stream.try_write(FULL.as_bytes());
            return;
        };
        let ingress = Ingress { peer, source: Source::of_unix(&stream), is_encrypted: false };
        let client = Client { admitted: admitted.clone(), ingress };
        let (ctx, handler) = (self.ctx.clone(), handler.clone());
        self.spawn(admitted, async move {
            let first = stream.async_io(Interest::READABLE, || peek(&stream));
            if let Ok(Ok(())) = timeout(ctx.limits.first_byte, first).await {
                connection::serve(&ctx, stream, handler, client).await;
            }
        });
    }

    fn spawn(&self, admitted: Arc<Admitted>, serving: impl Future<Output = ()> + Send + 'static) {
        let (ctx, abort) = (self.ctx.clone(), self.abort.clone());
        self.tasks.spawn(async move {
            let _open = OpenConnection::new(&ctx.open);
            tokio::select! {
                biased;
                () = abort.cancelled() => {}
                () = admitted.evicted() => {}
                () = serving => {}
            }
        });
    }
}

/// Checks, without consuming it, that the first byte or the end of the stream has come.
fn peek(stream: impl AsFd) -> io::Result<()> {
    recv(stream, &mut [0; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(())
}

/// Sends small responses at once, and detects a client whose machine vanished.
fn configure(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        sockopt::set_tcp_keepidle(stream, DEAD_AFTER)?;
        sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    }
    // It also covers data that was sent and not acknowledged; elsewhere the kernel's own limit does.
    #[cfg(target_os = "linux")]
    {
        let millis = u32::try_from(DEAD_AFTER.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(stream, millis)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_at_the_limit_states_its_length() {
        let (head, body) = FULL.split_once("\r\n\r\n").unwrap_or_default();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok());
    }
}
