//! Reading locks without acquiring them.

use crate::api::callers::CanRead;
use crate::api::locks::search::{MAX_LIMIT, Search};
use crate::api::request::{Query, StoredName};
use crate::api::response::json;
use crate::api::state::AppState;
use crate::auth::scope::Scope;
use crate::json::lock::{LockJson, NodeLockJson};
use crate::json::reader::ReaderJson;
use crate::problem::Problem;
use axum::extract::State;
use axum::response::Response;
use quorlock::{Holder, Inspection};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// A page of the locks that are held.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Locks {
    /// Whether all held locks were counted. If not, there may be more than `total`, and some that match
    /// may be missing.
    complete: bool,
    /// How many held locks were counted, at most 10000.
    total: usize,
    /// How many of them match `q`.
    matched: usize,
    /// How many of those come before this page.
    before: usize,
    /// What to send as `after` for the next page; null on the last one.
    next: Option<String>,
    locks: Vec<LockJson>,
}

/// Lists the held locks of all sidecars and programs
///
/// The list is at most half a second old, or two seconds where listing is slow. Each page comes from the
/// list of its own moment: a lock that stays held is on exactly one page, unless its position in the
/// order changes.
#[utoipa::path(get, path = "/v1/locks", operation_id = "all", tag = "locks", params(Search), responses(
    (status = 200, body = Locks), (status = 400, description = "bad_request"), (status = 503, description = "no_quorum")))]
pub(crate) async fn list(
    State(app): State<Arc<AppState>>,
    _: CanRead,
    Query(search): Query<Search>,
) -> Result<Response, Problem> {
    let search = search.validate(MAX_LIMIT)?;
    let list = app.lock_list.fresh(&app.locker).await?;
    let page = search.page(&list, app.started);
    Ok(json(&Locks {
        complete: list.listing.complete,
        total: list.listing.held.len(),
        matched: page.matched,
        before: page.before,
        locks: page.locks.into_iter().map(|seen| with_local_state(&app, seen)).collect(),
        next: page.next,
    }))
}

/// Returns one lock, held or free, with what each node stores
///
/// A slot of a semaphore has the name that the list gives it.
#[utoipa::path(get, path = "/v1/locks/{name}", operation_id = "one", tag = "locks", params(("name" = String, Path,)), responses(
    (status = 200, body = LockJson), (status = 503, description = "no_quorum")))]
pub(crate) async fn show(
    State(app): State<Arc<AppState>>,
    CanRead(scope): CanRead,
    StoredName(name): StoredName,
) -> Result<Response, Problem> {
    let seen = app.locker.stored(name.clone()).inspect().await?;
    let token = match &seen.holder {
        Holder::Owner { token, .. } => Some(*token),
        _ => None,
    };
    let mut lock = with_local_state(&app, &seen);
    lock.node_views = Some(seen.nodes.iter().map(|node| NodeLockJson::new(node, &seen.holder)).collect());
    if scope >= Scope::Write {
        lock.readers = ReaderJson::all_with_tokens(&seen.holder);
    }
    // A caller of this sidecar may still have a lock that the nodes forgot: an operator needs its token
    // to free it.
    let forgotten = || app.claims.token(&name).filter(|_| !matches!(seen.holder, Holder::Shared { .. }));
    let token = token.or_else(forgotten);
    lock.token = token.filter(|_| scope >= Scope::Write).map(|token| token.to_string());
    Ok(json(&lock))
}

/// A lock, with its waiters and sessions at this sidecar.
pub(crate) fn with_local_state(app: &AppState, seen: &Inspection) -> LockJson {
    LockJson {
        waiters: app.waiters.count(&seen.name.topic()),
        here: app.claims.is_held_here(&seen.name),
        ..LockJson::from(seen)
    }
}
