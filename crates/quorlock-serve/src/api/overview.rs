//! Everything that the dashboard shows, in one response.

use crate::api::callers::CanRead;
use crate::api::locks::inspect::with_local_state;
use crate::api::locks::search::Search;
use crate::api::request::Query;
use crate::api::response::json;
use crate::api::state::AppState;
use crate::auth::scope::Scope;
use crate::dashboard::banners::{Banner, banners};
use crate::dashboard::history::Points;
use crate::dashboard::nodes::{Node, nodes};
use crate::json::lock::LockJson;
use crate::json::{millis, now_ms};
use crate::problem::Problem;
use crate::sessions::SessionCounts;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use utoipa::ToSchema;

/// How many locks are returned to a caller that gives no `limit`.
const DEFAULT_LIMIT: usize = 500;
/// How long to wait for a fresh list of locks.
const LIST_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a banner shows a loss.
const LOSS_SHOWN: Duration = Duration::from_secs(60);

/// Everything at a glance.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Overview {
    version: &'static str,
    /// Milliseconds since 1970.
    now: u64,
    uptime_ms: u64,
    /// What this caller may do.
    scope: Scope,
    /// How many nodes decide.
    quorum: usize,
    nodes: Vec<Node>,
    /// A page of the held locks, of at most 500 unless a `limit` is given.
    locks: Vec<LockJson>,
    /// How many held locks were counted, at most 10000.
    locks_total: usize,
    /// How many of them match `q`.
    locks_matched: usize,
    /// How many of those come before this page.
    locks_before: usize,
    /// What to send as `after` for the next page; null on the last one.
    locks_next: Option<String>,
    /// Whether all held locks were counted.
    complete: bool,
    /// How old the list of locks is.
    locks_age_ms: Option<u64>,
    waiters_total: usize,
    /// Leases by token through this sidecar.
    sessions: usize,
    /// Locks held by a connection.
    holds: usize,
    connections: usize,
    banners: Vec<Banner>,
    series: Points,
}

/// Returns nodes, locks, banners and the last five minutes
///
/// The parameters select locks as for `/v1/locks`.
#[utoipa::path(get, path = "/v1/overview", tag = "overview", params(Search), responses(
    (status = 200, body = Overview), (status = 400, description = "bad_request")))]
pub(crate) async fn overview(
    State(app): State<Arc<AppState>>,
    CanRead(scope): CanRead,
    Query(search): Query<Search>,
) -> Result<Response, Problem> {
    let search = search.validate(DEFAULT_LIMIT)?;
    let list = app.lock_list.fresh_or_last(&app.locker, LIST_TIMEOUT).await;
    let page = list.as_ref().map(|list| search.page(list, app.started)).unwrap_or_default();
    let nodes = nodes(&app.locker, &app.node_facts);
    let lost = app.event_log.last_loss_within(LOSS_SHOWN);
    let quorum = app.locker.quorum();
    let SessionCounts { leases, holds } = app.sessions.counts();
    Ok(json(&Overview {
        version: env!("CARGO_PKG_VERSION"),
        now: now_ms(),
        uptime_ms: millis(app.started.elapsed()),
        scope,
        quorum: quorum.needed(),
        banners: banners(&nodes, quorum, app.ttl, lost.as_deref()),
        nodes,
        locks: page.locks.into_iter().map(|seen| with_local_state(&app, seen)).collect(),
        locks_total: list.as_ref().map_or(0, |list| list.listing.held.len()),
        locks_matched: page.matched,
        locks_before: page.before,
        locks_next: page.next,
        complete: list.as_ref().is_some_and(|list| list.listing.complete),
        locks_age_ms: list.as_ref().map(|list| millis(list.age())),
        waiters_total: app.waiters.total(),
        sessions: leases,
        holds,
        connections: app.connections.load(Ordering::Relaxed),
        series: app.history.points(),
    }))
}
