//! One connection from its first byte to its last.

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
use tower::ServiceExt;

/// The longest head of a request, in bytes. Names have 512 bytes, which encoding may triple.
const MAX_HEAD: usize = 32 * 1024;
/// The most headers of a request.
const MAX_HEADERS: usize = 64;

/// Serves `stream` until it ends, or until the sidecar shuts down and the request under way is answered.
pub(crate) async fn serve(
    app: &App,
    stream: impl Socket,
    router: Router,
    source: Source,
    is_encrypted: bool,
) {
    let _open = Open::new(app);
    let delivery = Arc::new(Delivery::default());
    let wire = TokioIo::new(Wire::new(stream, delivery.clone()));
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(delivery.clone());
        request.extensions_mut().insert(source);
        if is_encrypted {
            request.extensions_mut().insert(Encrypted);
        }
        router.clone().oneshot(request.map(Body::new))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.head)
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
struct Open<'a>(&'a App);

impl<'a> Open<'a> {
    fn new(app: &'a App) -> Self {
        app.connections.fetch_add(1, Ordering::Relaxed);
        Self(app)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
