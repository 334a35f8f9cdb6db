//! Everything that the dashboard shows, in one answer.

use crate::access::{CanRead, Scope};
use crate::app::App;
use crate::ask::Asked;
use crate::banners::{Banner, banners};
use crate::look;
use crate::nodes::{Node, nodes};
use crate::problem::Problem;
use crate::reply::json;
use crate::search::Search;
use crate::series::Points;
use crate::view::{LockView, millis, now_ms};
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use utoipa::ToSchema;

/// How many locks are shown to a caller that gives no `limit`.
const MOST_LOCKS: usize = 500;
/// How long a first list of locks is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long ago a loss is news.
const LOSS_IS_NEWS: Duration = Duration::from_secs(60);

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
    locks: Vec<LockView>,
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

/// Shows nodes, locks, trouble and the last five minutes at a glance
///
/// Which locks are shown can be chosen as for `/v1/locks`.
#[utoipa::path(get, path = "/v1/overview", tag = "overview", params(Search), responses(
    (status = 200, body = Overview), (status = 400, description = "bad_request")))]
pub(crate) async fn overview(
    State(app): State<Arc<App>>,
    CanRead(scope): CanRead,
    Asked(search): Asked<Search>,
) -> Result<Response, Problem> {
    let search = search.checked(MOST_LOCKS)?;
    let seen = app.listing.soon(&app.locker, PATIENCE).await;
    let page = seen.as_ref().map(|seen| search.page(seen, app.started)).unwrap_or_default();
    let nodes = nodes(&app);
    let lost = app.journal.lost_within(LOSS_IS_NEWS);
    let quorum = app.locker.quorum();
    let (sessions, holds) = app.sessions.counts();
    Ok(json(&Overview {
        version: env!("CARGO_PKG_VERSION"),
        now: now_ms(),
        uptime_ms: millis(app.started.elapsed()),
        scope,
        quorum: quorum.needed(),
        banners: banners(&nodes, quorum, app.ttl, lost.as_deref()),
        nodes,
        locks: page.locks.into_iter().map(|seen| look::view(&app, seen)).collect(),
        locks_total: seen.as_ref().map_or(0, |seen| seen.listing.held.len()),
        locks_matched: page.matched,
        locks_before: page.before,
        locks_next: page.next,
        complete: seen.as_ref().is_some_and(|seen| seen.listing.complete),
        locks_age_ms: seen.as_ref().map(|seen| millis(seen.age())),
        waiters_total: app.waiters.total(),
        sessions,
        holds,
        connections: app.connections.load(Ordering::Relaxed),
        series: app.series.points(),
    }))
}
