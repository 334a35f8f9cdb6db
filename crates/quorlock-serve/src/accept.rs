//! Takes connections, as many as are allowed, until the sidecar shuts down.

use crate::access::Peer;
use crate::admission::{Admission, Admitted};
use crate::app::App;
use crate::code::Code;
use crate::connection::{self, Caller};
use crate::exporter;
use crate::listen::Listener;
use crate::routes::router;
use crate::source::Source;
use crate::tls::Certificates;
use axum::Router;
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

/// A caller that does not acknowledge what we sent for so long is gone.
const DEAD_AFTER: Duration = Duration::from_secs(15);
/// How long to hold back when the system has no room for another connection.
const NO_ROOM: Duration = Duration::from_millis(50);
/// The answer to a connection that is not let in. Nothing of its request is read.
const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
connection: close\r\ncontent-length: 170\r\n\r\n\
{\"type\":\"urn:quorlock:full\",\"code\":\"full\",\"title\":\"The sidecar has no room\",\"status\":503,\
\"detail\":\"too many connections are open; close some, or raise --max-connections\"}";

/// What all listeners share.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) app: Arc<App>,
    pub(crate) tls: Option<Certificates>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) tasks: TaskTracker,
    /// Ends all connections at once.
    pub(crate) hang_up: CancellationToken,
}

impl Door {
    /// Takes connections from `listener` until the sidecar shuts down.
    pub(crate) async fn keep(self, listener: Listener, peer: Peer) {
        let router = router(self.app.clone(), peer);
        let closing = self.app.closing.clone();
        let taking = async {
            loop {
                let taken = match &listener {
                    Listener::Tcp(listener) => {
                        listener.accept().await.map(|(stream, from)| self.take_tcp(stream, from, &router))
                    }
                    Listener::Unix(listener, _) => {
                        listener.accept().await.map(|(stream, _)| self.take_unix(stream, &router))
                    }
                };
                if let Err(error) = taken {
                    tracing::warn!(target: "quorlock", %error, "a connection could not be taken");
                    tokio::time::sleep(NO_ROOM).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = closing.cancelled() => {}
            () = taking => {}
        }
    }

    fn take_tcp(&self, stream: TcpStream, from: SocketAddr, router: &Router) {
        let Some(admitted) = self.admission.admit() else {
            exporter::count_problem(Code::Full);
            let _ = stream.try_write(FULL.as_bytes());
            return;
        };
        if let Err(error) = set_up(&stream) {
            tracing::debug!(target: "quorlock", %error, "a connection could not be set up");
        }
        let caller = Caller { admitted: admitted.clone(), source: Source::Tcp(from), is_encrypted: false };
        let (app, tls, router) = (self.app.clone(), self.tls.clone(), router.clone());
        self.spawn(admitted, async move {
            let first = stream.async_io(Interest::READABLE, || peek(&stream));
            if !matches!(timeout(app.limits.first_byte, first).await, Ok(Ok(()))) {
                return;
            }
            let Some(tls) = tls else { return connection::serve(&app, stream, router, caller).await };
            let accepting = TlsAcceptor::from(tls.current()).accept(stream);
            let Ok(Ok(stream)) = timeout(app.limits.head, accepting).await else { return };
            if tls.knows_callers() {
                caller.admitted.know();
            }
            connection::serve(&app, stream, router, Caller { is_encrypted: true, ..caller }).await;
        });
    }

    fn take_unix(&self, stream: UnixStream, router: &Router) {
        let Some(admitted) = self.admission.admit() else {
            exporter::count_problem(Code::Full);
            let _ = stream.try_write(FULL.as_bytes());
            return;
        };
        let source = Source::of_unix(&stream);
        let caller = Caller { admitted: admitted.clone(), source, is_encrypted: false };
        let (app, router) = (self.app.clone(), router.clone());
        self.spawn(admitted, async move {
            let first = stream.async_io(Interest::READABLE, || peek(&stream));
            if let Ok(Ok(())) = timeout(app.limits.first_byte, first).await {
                connection::serve(&app, stream, router, caller).await;
            }
        });
    }

    fn spawn(&self, admitted: Arc<Admitted>, serving: impl Future<Output = ()> + Send + 'static) {
        let (app, hang_up) = (self.app.clone(), self.hang_up.clone());
        self.tasks.spawn(async move {
            let _open = connection::Open::new(&app);
            tokio::select! {
                biased;
                () = hang_up.cancelled() => {}
                () = admitted.closed() => {}
                () = serving => {}
            }
        });
    }
}

/// Whether the first byte, or the end, has come. It stays where it is.
fn peek(stream: impl AsFd) -> io::Result<()> {
    recv(stream, &mut [0; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(())
}

/// Small answers go out at once, and a caller whose machine vanished is noticed.
fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(target_os = "linux")]
    {
        sockopt::set_tcp_keepidle(stream, DEAD_AFTER)?;
        sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
        let millis = u32::try_from(DEAD_AFTER.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(stream, millis)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_one_too_many_says_how_long_it_is() {
        let (head, body) = FULL.split_once("\r\n\r\n").unwrap_or_default();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok());
    }
}
