//! One connection from its first byte to its last.

use crate::admission::Admitted;
use crate::app::App;
use crate::delivery::Delivery;
use crate::source::{Encrypted, Source};
use crate::wire::{Socket, Wire};
use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;
use tower::ServiceExt;

/// The longest head of a request, in bytes. Names have 512 bytes, which encoding may triple.
const MAX_HEAD: usize = 32 * 1024;
/// The most headers of a request.
const MAX_HEADERS: usize = 64;
/// How long a connection for a probe lasts.
const PROBE: Duration = Duration::from_secs(5);

/// The other end of a connection.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) admitted: Arc<Admitted>,
    pub(crate) source: Source,
    pub(crate) is_encrypted: bool,
}

/// Serves `stream` until it ends, or until the sidecar shuts down and the request under way is answered. A connection for a
/// probe ends after one request.
pub(crate) async fn serve(app: &Arc<App>, stream: impl Socket, router: Router, caller: Caller) {
    if caller.admitted.is_probe() {
        let _ = timeout(PROBE, answer(app, stream, router, caller)).await;
    } else {
        answer(app, stream, router, caller).await;
    }
}

async fn answer(app: &Arc<App>, stream: impl Socket, router: Router, caller: Caller) {
    let delivery = Arc::new(Delivery::default());
    let wire = TokioIo::new(Wire::new(stream, delivery.clone()));
    let is_probe = caller.admitted.is_probe();
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        if !caller.admitted.is_known() && app.access.is_known(request.headers()) {
            caller.admitted.know();
        }
        let extensions = request.extensions_mut();
        extensions.insert(delivery.clone());
        extensions.insert(caller.admitted.clone());
        extensions.insert(caller.source);
        if caller.is_encrypted {
            extensions.insert(Encrypted);
        }
        router.clone().oneshot(request.map(Body::new))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.head)
        .keep_alive(!is_probe)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(wire, service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = app.closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(target: "quorlock", %error, "connection ended");
    }
}

/// Counts an open connection.
pub(crate) struct Open<'a>(&'a App);

impl<'a> Open<'a> {
    pub(crate) fn new(app: &'a App) -> Self {
        app.connections.fetch_add(1, Ordering::Relaxed);
        Self(app)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
