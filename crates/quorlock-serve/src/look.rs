//! Looking at locks without taking them.

use crate::access::{CanRead, Scope};
use crate::app::App;
use crate::ask::{Asked, LockName};
use crate::problem::Problem;
use crate::reply::json;
use crate::search::{MOST, Search};
use crate::view::{LockView, NodeStores, token_of};
use axum::extract::State;
use axum::response::Response;
use quorlock::Inspection;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// A page of the locks that are held.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Locks {
    /// Whether all held locks were counted. If not, there may be more than `total`, and some that match may be missing.
    complete: bool,
    /// How many held locks were counted, at most 10000.
    total: usize,
    /// How many of them match `q`.
    matched: usize,
    /// How many of those come before this page.
    before: usize,
    /// What to send as `after` for the next page; null on the last one.
    next: Option<String>,
    locks: Vec<LockView>,
}

/// Lists the locks that are held, through whichever sidecar or program
///
/// The list is at most half a second old, or two seconds where listing is slow. Pages are cut from the list of their own
/// moment: a lock that stays held is on exactly one of them, unless its place in the order changes.
#[utoipa::path(get, path = "/v1/locks", tag = "locks", params(Search), responses(
    (status = 200, body = Locks), (status = 400, description = "bad_request"), (status = 503, description = "no_quorum")))]
pub(crate) async fn all(
    State(app): State<Arc<App>>,
    _: CanRead,
    Asked(search): Asked<Search>,
) -> Result<Response, Problem> {
    let search = search.checked(MOST)?;
    let seen = app.listing.fresh(&app.locker).await?;
    let page = search.page(&seen, app.started);
    Ok(json(&Locks {
        complete: seen.listing.complete,
        total: seen.listing.held.len(),
        matched: page.matched,
        before: page.before,
        locks: page.locks.into_iter().map(|seen| view(&app, seen)).collect(),
        next: page.next,
    }))
}

/// Shows one lock, also when it is free, with what each node stores
#[utoipa::path(get, path = "/v1/locks/{name}", tag = "locks", params(("name" = String, Path,)), responses(
    (status = 200, body = LockView), (status = 503, description = "no_quorum")))]
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    CanRead(scope): CanRead,
    LockName(name): LockName,
) -> Result<Response, Problem> {
    let seen = app.locker.named(name.as_str())?.inspect().await?;
    let token = token_of(&seen.holder);
    let mut view = view(&app, &seen);
    view.node_views = Some(seen.nodes.iter().map(|node| NodeStores::of(node, token)).collect());
    // What the nodes forgot a caller of this sidecar may have still: an operator needs the token to free it.
    let token = token.or_else(|| app.claims.token(&name));
    view.token = token.filter(|_| scope >= Scope::Write).map(|token| token.to_string());
    Ok(json(&view))
}

/// A lock with what this sidecar knows of it.
pub(crate) fn view(app: &App, seen: &Inspection) -> LockView {
    let mut view = LockView::of(seen);
    view.waiters = app.waiters.of(&seen.name);
    view.here = app.sessions.is_here(&seen.name);
    view
}
