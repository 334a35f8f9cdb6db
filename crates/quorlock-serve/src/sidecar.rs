//! The whole sidecar: configure, bind, serve, shut down.

use crate::api::routes::{Api, router};
use crate::api::state::AppState;
use crate::auth::Access;
use crate::auth::caller::Peer;
use crate::auth::new_names::NewNames;
use crate::auth::origin::Origin;
use crate::auth::scope::Scope;
use crate::auth::secrets::SecretsError;
use crate::dashboard::history::History;
use crate::events::event_log::EventLog;
use crate::http::accept::Acceptor;
use crate::http::admission::Admission;
use crate::http::connection::ConnectionContext;
use crate::http::listen::{Address, ListenError, Listener};
use crate::http::tls::{Certificates, Tls, TlsError};
use crate::json::now_ms;
use crate::limits::Limits;
use crate::limits::waiters::Waiters;
use crate::metrics;
use crate::sessions::Sessions;
use axum::Router;
use metrics_exporter_prometheus::BuildError;
use quorlock::metrics::Metrics;
use quorlock::{Builder, CancellationToken, ConfigError, Event, Locker, Observer};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};
use tokio_util::task::TaskTracker;

/// How often expired leases are forgotten.
const SWEEP: Duration = Duration::from_millis(500);
/// How often all nodes are asked something, so that a silent node is noticed even without requests.
const PROBE_NODES: Duration = Duration::from_secs(5);
/// How often idle series of metrics are dropped, if no scrape does so.
const SWEEP_SERIES: Duration = Duration::from_secs(300);
/// How long the last releases may take to reach the nodes.
const FLUSH: Duration = Duration::from_secs(2);

/// A sidecar: locks over HTTP.
///
/// ```
/// use quorlock::Locker;
/// use quorlock_serve::{CancellationToken, Sidecar};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let nodes = Locker::builder().nodes(["memory:"]); // in production: "redis://a", "redis://b", "redis://c"
/// let sidecar = Sidecar::builder(nodes).build()?;
/// let bound = sidecar.bind(&["127.0.0.1:0".parse()?], None).await?;
/// println!("listening on {}", bound.urls()[0]);
/// let shutdown = CancellationToken::new();
/// # shutdown.cancel();
/// bound.serve(shutdown).await;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Sidecar(Arc<AppState>);

/// Why [`SidecarBuilder::build`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SidecarError {
    /// The nodes or settings of the locker cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file of secrets cannot be used.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The program has installed another recorder of metrics.
    #[error("metrics cannot be recorded: {0}")]
    Metrics(#[from] BuildError),
}

/// Why [`Sidecar::bind`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// An address cannot be used.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Certificates or keys cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The settings of a [`Sidecar`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct SidecarBuilder {
    nodes: Builder,
    ttl: Duration,
    limits: Limits,
    token_file: Option<PathBuf>,
    anonymous: Option<Scope>,
    origins: Vec<Origin>,
}

impl SidecarBuilder {
    /// The ttl of locks for requests that give none (default 30 s).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The bounds on sessions, connections, waiters, new names and times.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// A file with the secrets of callers: one per line, `SCOPE:NAME:SECRET` or `SCOPE:SECRET`, with the
    /// scope `read`, `lock` or `write`.
    pub fn token_file(mut self, path: Option<PathBuf>) -> Self {
        self.token_file = path;
        self
    }

    /// What callers without a secret may do. Default: nothing if there is a token file; otherwise
    /// everything on sockets in the file system, and scope `lock` elsewhere.
    pub fn anonymous(mut self, scope: Option<Scope>) -> Self {
        self.anonymous = scope;
        self
    }

    /// Where a reverse proxy publishes the sidecar: accepted in the headers `Host` and `Origin`.
    /// Default: nowhere.
    pub fn origins(mut self, origins: Vec<Origin>) -> Self {
        self.origins = origins;
        self
    }

    /// Makes the sidecar. It does not connect to the nodes yet.
    ///
    /// # Errors
    /// [`SidecarError`], which says what cannot be used.
    pub fn build(self) -> Result<Sidecar, SidecarError> {
        let access = Access::new(self.token_file, self.anonymous)?;
        let prometheus = metrics::install_recorder()?;
        let (event_log, history) =
            (Arc::new(EventLog::starting_after(now_ms() * 1000)), Arc::new(History::new()));
        let observers = (event_log.clone(), history.clone());
        let locker: Locker = self
            .nodes
            .ttl(self.ttl)
            .max_attempts(u32::MAX)
            .metrics(Metrics::new())
            .observer(move |event: &Event| {
                observers.0.on_event(event);
                observers.1.on_event(event);
            })
            .build()?;
        Ok(Sidecar(Arc::new(AppState {
            locker,
            ttl: self.ttl,
            limits: self.limits,
            access: Arc::new(access),
            origins: self.origins,
            sessions: Arc::new(Sessions::new(self.limits.sessions)),
            claims: Default::default(),
            waiters: Waiters::new(self.limits.waiters),
            new_names: NewNames::per_second(self.limits.new_names),
            event_log,
            history,
            lock_list: Default::default(),
            node_facts: Default::default(),
            prometheus,
            connections: Arc::new(AtomicUsize::new(0)),
            started: Instant::now(),
            closing: CancellationToken::new(),
        })))
    }
}

impl Sidecar {
    /// Starts a configuration. `nodes` names the nodes, and may have any other settings of a locker.
    pub fn builder(nodes: Builder) -> SidecarBuilder {
        SidecarBuilder {
            nodes,
            ttl: Duration::from_secs(30),
            limits: Limits::default(),
            token_file: None,
            anonymous: None,
            origins: Vec::new(),
        }
    }

    /// All its routes, for callers that come from `peer`: to serve them with a server of your own. If a
    /// caller then closes its connection before the response was written, its lock stays held until the
    /// ttl is over.
    pub fn router(&self, peer: Peer) -> Router {
        router(self.0.clone(), peer)
    }

    #[cfg(test)]
    pub(crate) fn state(&self) -> Arc<AppState> {
        self.0.clone()
    }

    /// Reads the file of secrets again. After a failure the old secrets stay.
    ///
    /// # Errors
    /// [`SecretsError`], which says what is wrong with it.
    pub fn reload(&self) -> Result<(), SecretsError> {
        self.0.access.reload()
    }

    /// Starts to listen on all `addresses`, with `tls` on the TCP addresses.
    ///
    /// # Errors
    /// [`BindError`], which names the address or file. The sidecar then listens on none of them.
    pub async fn bind(&self, addresses: &[Address], tls: Option<&Tls>) -> Result<Bound, BindError> {
        let verifies_callers = self.0.access.has_secrets() || tls.is_some_and(Tls::verifies_callers);
        if let Some(open) = addresses.iter().find(|address| !address.is_local()).filter(|_| !verifies_callers)
        {
            return Err(ListenError::Unprotected { address: open.clone() }.into());
        }
        let tls = tls.map(Certificates::load).transpose()?;
        let mut listeners = Vec::new();
        for address in addresses {
            let listener = Listener::bind(address).await?;
            let refused = |source| ListenError::Refused { address: address.clone(), source };
            let bound = listener.address().map_err(refused)?;
            listeners.push((listener, bound));
        }
        let app = self.0.clone();
        let ctx = ConnectionContext {
            limits: app.limits,
            access: app.access.clone(),
            open: app.connections.clone(),
            closing: app.closing.clone(),
        };
        let acceptor = Acceptor {
            ctx: Arc::new(ctx),
            tls,
            admission: Arc::new(Admission::new(app.limits.connections)),
            tasks: TaskTracker::new(),
            abort: CancellationToken::new(),
        };
        Ok(Bound { app, acceptor, listeners })
    }
}

/// A sidecar that listens.
#[derive(Debug)]
#[must_use = "no request is answered until `serve`"]
pub struct Bound {
    app: Arc<AppState>,
    acceptor: Acceptor,
    listeners: Vec<(Listener, Address)>,
}

impl Bound {
    /// Where it listens: `http://ADDR:PORT`, `https://ADDR:PORT` or `unix:PATH`.
    pub fn urls(&self) -> Vec<String> {
        let scheme = if self.acceptor.tls.is_some() { "https" } else { "http" };
        let url = |address: &Address| match address {
            Address::Tcp(tcp) => format!("{scheme}://{tcp}"),
            unix => unix.to_string(),
        };
        self.listeners.iter().map(|(_, address)| url(address)).collect()
    }

    /// Its certificates, if it has TLS.
    pub fn certificates(&self) -> Option<Certificates> {
        self.acceptor.tls.clone()
    }

    /// The addresses where secrets travel in the clear: other machines can reach them, and they have no
    /// TLS.
    pub fn exposed(&self) -> Vec<&Address> {
        let addresses = self.listeners.iter().map(|(_, address)| address);
        let is_exposed = self.app.access.has_secrets() && self.acceptor.tls.is_none();
        addresses.filter(|address| is_exposed && !address.is_local()).collect()
    }

    /// Serves until `shutdown`, then waits for running requests to end.
    ///
    /// From `shutdown` on no call acquires a lock, holds are released, and leases by token stay on the
    /// nodes: their callers have the tokens, which other sidecars accept.
    pub async fn serve(self, shutdown: CancellationToken) {
        let Bound { app, acceptor, listeners } = self;
        let accepting = TaskTracker::new();
        for (listener, address) in listeners {
            let peer = match &address {
                Address::Unix(_) => Peer::Unix,
                local if local.is_local() => Peer::Loopback,
                _ => Peer::Remote,
            };
            accepting.spawn(acceptor.clone().run(listener, peer, Api::new(app.clone())));
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = maintain(&app) => {}
        }
        app.closing.cancel();
        accepting.close();
        accepting.wait().await;
        acceptor.tasks.close();
        if tokio::time::timeout(app.limits.drain, acceptor.tasks.wait()).await.is_err() {
            acceptor.abort.cancel();
            acceptor.tasks.wait().await;
        }
        app.sessions.detach_all();
        let _ = tokio::time::timeout(FLUSH, app.locker.flush()).await;
    }
}

/// Periodic work, until it is dropped.
async fn maintain(app: &AppState) {
    // Without a quorum the readiness check reports the causes.
    let _ = app.locker.connect().await;
    let (mut probed, mut swept) = (Instant::now(), Instant::now());
    loop {
        tokio::time::sleep(SWEEP).await;
        app.sessions.sweep();
        app.claims.sweep();
        app.prometheus.run_upkeep();
        if swept.elapsed() >= SWEEP_SERIES {
            metrics::sweep(&app.prometheus);
            swept = Instant::now();
        }
        if probed.elapsed() >= PROBE_NODES {
            app.locker.flush().await;
            probed = Instant::now();
        }
    }
}
