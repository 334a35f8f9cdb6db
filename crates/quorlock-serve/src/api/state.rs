//! The state that all requests share.

use crate::auth::Access;
use crate::auth::new_names::NewNames;
use crate::auth::origin::Origin;
use crate::dashboard::history::History;
use crate::dashboard::lock_list_cache::LockListCache;
use crate::dashboard::node_facts_cache::NodeFactsCache;
use crate::events::event_log::EventLog;
use crate::limits::Limits;
use crate::limits::waiters::Waiters;
use crate::sessions::Sessions;
use crate::sessions::claims::Claims;
use metrics_exporter_prometheus::PrometheusHandle;
use quorlock::{CancellationToken, Locker};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// A running sidecar as its requests see it.
#[derive(Debug)]
pub(crate) struct AppState {
    pub(crate) locker: Locker,
    /// The ttl for requests that give none.
    pub(crate) ttl: Duration,
    pub(crate) limits: Limits,
    pub(crate) access: Arc<Access>,
    /// Where a reverse proxy publishes the sidecar.
    pub(crate) origins: Vec<Origin>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) claims: Claims,
    pub(crate) waiters: Waiters,
    pub(crate) new_names: NewNames,
    pub(crate) event_log: Arc<EventLog>,
    pub(crate) history: Arc<History>,
    pub(crate) lock_list: LockListCache,
    pub(crate) node_facts: NodeFactsCache,
    pub(crate) prometheus: PrometheusHandle,
    /// How many connections are open.
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) started: Instant,
    /// Cancelled when the sidecar begins to shut down.
    pub(crate) closing: CancellationToken,
}
