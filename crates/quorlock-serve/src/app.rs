//! What all requests share.

use crate::access::Access;
use crate::claims::Claims;
use crate::facts::FactsCache;
use crate::journal::Journal;
use crate::limits::Limits;
use crate::listing::ListingCache;
use crate::new_names::NewNames;
use crate::origin::Origin;
use crate::series::Series;
use crate::sessions::Sessions;
use crate::waiters::Waiters;
use metrics_exporter_prometheus::PrometheusHandle;
use quorlock::{CancellationToken, Locker};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// A running sidecar as its requests see it.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) locker: Locker,
    /// The ttl of whoever gives none.
    pub(crate) ttl: Duration,
    pub(crate) limits: Limits,
    pub(crate) access: Access,
    /// Where a reverse proxy publishes the sidecar.
    pub(crate) origins: Vec<Origin>,
    pub(crate) sessions: Sessions,
    pub(crate) claims: Claims,
    pub(crate) waiters: Waiters,
    pub(crate) new_names: NewNames,
    pub(crate) journal: Arc<Journal>,
    pub(crate) series: Arc<Series>,
    pub(crate) listing: ListingCache,
    pub(crate) facts: FactsCache,
    pub(crate) prometheus: PrometheusHandle,
    pub(crate) connections: AtomicUsize,
    pub(crate) started: Instant,
    /// Cancelled when the sidecar begins to shut down.
    pub(crate) closing: CancellationToken,
}
