//! The sidecar as a whole: configured, bound, served, shut down.

use crate::accept::Door;
use crate::access::{Access, Peer, Scope};
use crate::admission::Admission;
use crate::app::App;
use crate::exporter;
use crate::journal::Journal;
use crate::keys::KeysError;
use crate::limits::Limits;
use crate::listen::{Address, ListenError, Listener};
use crate::new_names::NewNames;
use crate::origin::Origin;
use crate::routes::router;
use crate::series::Series;
use crate::sessions::Sessions;
use crate::tls::{Certificates, Tls, TlsError};
use crate::view::now_ms;
use crate::waiters::Waiters;
use axum::Router;
use metrics_exporter_prometheus::BuildError;
use quorlock::metrics::Metrics;
use quorlock::{Builder, CancellationToken, ConfigError, Event, Locker, Observer};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};
use tokio_util::task::TaskTracker;

/// How often leases whose time is over are forgotten.
const SWEEP: Duration = Duration::from_millis(500);
/// How often all nodes are asked something, so that one that fell silent is noticed also while nobody needs it.
const ASK: Duration = Duration::from_secs(5);
/// How often idle series of metrics are dropped, if nothing reads them.
const SWEEP_SERIES: Duration = Duration::from_secs(300);
/// How long the last releases may take to reach the nodes.
const LAST_WORDS: Duration = Duration::from_secs(2);

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
pub struct Sidecar(Arc<App>);

/// Why a sidecar cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SidecarError {
    /// The nodes or settings of the locker cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file of secrets cannot be used.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// Metrics cannot be recorded, as the program records them elsewhere.
    #[error("metrics cannot be recorded: {0}")]
    Metrics(#[from] BuildError),
}

/// Why a sidecar cannot listen.
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
    /// The ttl of locks whose takers give none (default 30 s).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How much it takes on.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// A file with secrets that callers must show: one per line, `SCOPE:NAME:SECRET` or `SCOPE:SECRET`, with the scope
    /// `read`, `lock` or `write`.
    pub fn token_file(mut self, path: Option<PathBuf>) -> Self {
        self.token_file = path;
        self
    }

    /// What callers without a secret may do. Default: nothing with a token file; without, everything on sockets of the
    /// file system, and take locks elsewhere.
    pub fn anonymous(mut self, scope: Option<Scope>) -> Self {
        self.anonymous = scope;
        self
    }

    /// Where a reverse proxy publishes it: accepted in the headers `Host` and `Origin`. Default: nowhere.
    pub fn origins(mut self, origins: Vec<Origin>) -> Self {
        self.origins = origins;
        self
    }

    /// Makes the sidecar. Connects to nobody yet.
    ///
    /// # Errors
    /// [`SidecarError`], which says what cannot be used.
    pub fn build(self) -> Result<Sidecar, SidecarError> {
        let access = Access::new(self.token_file, self.anonymous)?;
        let prometheus = exporter::install()?;
        let (journal, series) = (Arc::new(Journal::beginning_at(now_ms() * 1000)), Arc::new(Series::new()));
        let ears = (journal.clone(), series.clone());
        let locker: Locker = self
            .nodes
            .ttl(self.ttl)
            .attempts(u32::MAX)
            .metrics(Metrics::new())
            .observe(move |event: &Event| {
                ears.0.on_event(event);
                ears.1.on_event(event);
            })
            .build()?;
        Ok(Sidecar(Arc::new(App {
            locker,
            ttl: self.ttl,
            limits: self.limits,
            access,
            origins: self.origins,
            sessions: Sessions::up_to(self.limits.sessions),
            claims: Default::default(),
            waiters: Waiters::up_to(self.limits.waiters),
            new_names: NewNames::per_second(self.limits.new_names),
            journal,
            series,
            listing: Default::default(),
            facts: Default::default(),
            prometheus,
            connections: AtomicUsize::new(0),
            started: Instant::now(),
            closing: CancellationToken::new(),
        })))
    }
}

impl Sidecar {
    /// Starts a configuration on the nodes of `nodes`, which may be set up as one likes.
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

    /// All its routes, for callers that come from `peer`: to serve them in a way of your own. A caller that goes away
    /// before its answer was written then keeps the lock until its ttl is over.
    pub fn router(&self, peer: Peer) -> Router {
        router(self.0.clone(), peer)
    }

    #[cfg(test)]
    pub(crate) fn app(&self) -> Arc<App> {
        self.0.clone()
    }

    /// Reads the file of secrets again. After a failure those from before stay.
    ///
    /// # Errors
    /// [`KeysError`], which says what is wrong with it.
    pub fn reload(&self) -> Result<(), KeysError> {
        self.0.access.reload()
    }

    /// Begins to listen on all `addresses`, with TLS on those of the network if it is given.
    ///
    /// # Errors
    /// [`BindError`], which names the address or file. Nothing is listened on then.
    pub async fn bind(&self, addresses: &[Address], tls: Option<&Tls>) -> Result<Bound, BindError> {
        let knows_callers = self.0.access.has_secrets() || tls.is_some_and(Tls::knows_callers);
        if let Some(open) = addresses.iter().find(|address| !address.is_local()).filter(|_| !knows_callers) {
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
        let door = Door {
            app: self.0.clone(),
            tls,
            admission: Arc::new(Admission::up_to(self.0.limits.connections)),
            tasks: TaskTracker::new(),
            hang_up: CancellationToken::new(),
        };
        Ok(Bound { door, listeners })
    }
}

/// A sidecar that listens.
#[derive(Debug)]
#[must_use = "nobody is answered until `serve`"]
pub struct Bound {
    door: Door,
    listeners: Vec<(Listener, Address)>,
}

impl Bound {
    /// Where it listens: `http://ADDR:PORT`, `https://ADDR:PORT` or `unix:PATH`.
    pub fn urls(&self) -> Vec<String> {
        let scheme = if self.door.tls.is_some() { "https" } else { "http" };
        let url = |address: &Address| match address {
            Address::Tcp(tcp) => format!("{scheme}://{tcp}"),
            unix => unix.to_string(),
        };
        self.listeners.iter().map(|(_, address)| url(address)).collect()
    }

    /// Its certificates, if it has TLS.
    pub fn certificates(&self) -> Option<Certificates> {
        self.door.tls.clone()
    }

    /// The addresses where secrets travel in the clear: they can be reached from other machines, and have no TLS.
    pub fn exposed(&self) -> Vec<&Address> {
        let addresses = self.listeners.iter().map(|(_, address)| address);
        let is_exposed = self.door.app.access.has_secrets() && self.door.tls.is_none();
        addresses.filter(|address| is_exposed && !address.is_local()).collect()
    }

    /// Serves until `shutdown`, then lets requests under way end.
    ///
    /// From that moment on nobody gets a lock, holds are released, and leases by token stay on the nodes: their takers
    /// have the tokens, which other sidecars accept.
    pub async fn serve(self, shutdown: CancellationToken) {
        let Bound { door, listeners } = self;
        let app = door.app.clone();
        let keepers = TaskTracker::new();
        for (listener, address) in listeners {
            let peer = match &address {
                Address::Unix(_) => Peer::Unix,
                local if local.is_local() => Peer::Loopback,
                _ => Peer::Remote,
            };
            keepers.spawn(door.clone().keep(listener, peer));
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tend(&app) => {}
        }
        app.closing.cancel();
        keepers.close();
        keepers.wait().await;
        door.tasks.close();
        if tokio::time::timeout(app.limits.drain, door.tasks.wait()).await.is_err() {
            door.hang_up.cancel();
            door.tasks.wait().await;
        }
        app.sessions.leave();
        let _ = tokio::time::timeout(LAST_WORDS, app.locker.flush()).await;
    }
}

/// What has to be done from time to time.
async fn tend(app: &App) {
    app.locker.connect().await;
    let (mut asked, mut swept) = (Instant::now(), Instant::now());
    loop {
        tokio::time::sleep(SWEEP).await;
        app.sessions.sweep();
        app.claims.sweep();
        app.prometheus.run_upkeep();
        if swept.elapsed() >= SWEEP_SERIES {
            exporter::sweep(app);
            swept = Instant::now();
        }
        if asked.elapsed() >= ASK {
            app.locker.flush().await;
            asked = Instant::now();
        }
    }
}
