//! One connection from its first byte to its last.

use crate::auth::Access;
use crate::auth::caller::Ingress;
use crate::http::admission::Admitted;
use crate::http::delivery::Delivery;
use crate::http::tracked_stream::{Socket, TrackedStream};
use crate::limits::Limits;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use quorlock::CancellationToken;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// The longest head of a request, in bytes. Names have up to 512 bytes, which percent-encoding may triple.
const MAX_HEAD: usize = 32 * 1024;
/// The most headers of a request.
const MAX_HEADERS: usize = 64;
/// How long a connection for a probe lasts.
const PROBE: Duration = Duration::from_secs(5);

/// What answers requests.
pub(crate) trait Handler: Clone + Send + Sync + 'static {
    fn handle(&self, request: Request) -> impl Future<Output = Response> + Send + 'static;
}

/// The connection of a request. Each request that came over one carries it as an extension.
#[derive(Clone, Debug)]
pub(crate) struct RequestConnection {
    pub(crate) admitted: Arc<Admitted>,
    pub(crate) delivery: Arc<Delivery>,
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct ConnectionContext {
    pub(crate) limits: Limits,
    pub(crate) access: Arc<Access>,
    /// How many connections are open.
    pub(crate) open: Arc<AtomicUsize>,
    /// Cancelled when the sidecar begins to shut down.
    pub(crate) closing: CancellationToken,
}

/// The client's end of a connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) admitted: Arc<Admitted>,
    pub(crate) ingress: Ingress,
}

/// Serves `stream` until it ends, or until the sidecar shuts down and the running request is answered. A
/// connection for a probe ends after one request.
pub(crate) async fn serve(
    ctx: &ConnectionContext,
    stream: impl Socket,
    handler: impl Handler,
    client: Client,
) {
    if client.admitted.is_probe() {
        let _ = timeout(PROBE, serve_requests(ctx, stream, handler, client)).await;
    } else {
        serve_requests(ctx, stream, handler, client).await;
    }
}

async fn serve_requests(ctx: &ConnectionContext, stream: impl Socket, handler: impl Handler, client: Client) {
    let delivery = Arc::new(Delivery::default());
    let stream = TokioIo::new(TrackedStream::new(stream, delivery.clone()));
    let is_probe = client.admitted.is_probe();
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        if !client.admitted.is_known() && ctx.access.has_valid_secret(request.headers()) {
            client.admitted.mark_known();
        }
        let extensions = request.extensions_mut();
        let (admitted, delivery) = (client.admitted.clone(), delivery.clone());
        extensions.insert(RequestConnection { admitted, delivery });
        extensions.insert(client.ingress);
        let handling = handler.handle(request.map(Body::new));
        async { Ok::<_, Infallible>(handling.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ctx.limits.head)
        .keep_alive(!is_probe)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(stream, service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = ctx.closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(target: "quorlock", %error, "connection ended");
    }
}

/// Counts an open connection, until it is dropped.
pub(crate) struct OpenConnection<'a>(&'a AtomicUsize);

impl<'a> OpenConnection<'a> {
    pub(crate) fn new(open: &'a AtomicUsize) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open)
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
