//! Locks: acquire, extend, release and force-release by token.

pub(crate) mod acquire;
pub(crate) mod hold;
pub(crate) mod inspect;
pub(crate) mod search;
pub(crate) mod target;

use crate::api::callers::{CanLock, CanWrite};
use crate::api::locks::acquire::AcquireRequest;
use crate::api::request::{self, Json, LockName, StoredName, parse_token};
use crate::api::response::json;
use crate::api::state::AppState;
use crate::auth::caller::Caller;
use crate::http::connection::RequestConnection;
use crate::http::delivery::Undelivered;
use crate::json::lease::{LeaseJson, Validity, several, slot};
use crate::json::millis;
use crate::problem::Problem;
use crate::problem::code::ProblemCode;
use crate::sessions::is_over;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use quorlock::{ExtendError, Name, NameSet, ReleaseOutcome, Token};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;
use utoipa::ToSchema;

/// What became of a release.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Released {
    /// `released`, or `unconfirmed`: too few nodes answered, so the ttl frees the lock at the latest.
    outcome: &'static str,
}

/// Acquires a lock
///
/// The sidecar does not renew it: extend it before its deadline. If you close the connection before the
/// response was written, the lock is released.
#[utoipa::path(post, path = "/v1/locks/{name}/acquire", tag = "locks", params(("name" = String, Path,)),
    request_body = request::Acquire, responses(
    (status = 200, body = LeaseJson), (status = 408, description = "wait_over"), (status = 409, description = "held, names_held, no_permit, slots_differ or contended"),
    (status = 429, description = "too_many_waiters or too_many_names"), (status = 503, description = "no_quorum, too_slow, full or shutting_down")))]
pub(crate) async fn acquire(
    State(app): State<Arc<AppState>>,
    CanLock(caller): CanLock,
    LockName(name): LockName,
    connection: Option<Extension<RequestConnection>>,
    Json(body): Json<request::Acquire>,
) -> Result<Response, Problem> {
    let wait = body.wait(Duration::ZERO)?;
    let ttl = body.ttl_ms.map_or(app.ttl, Duration::from_millis);
    let arrived = app.locker.now();
    let request = AcquireRequest {
        target: body.target(&name)?,
        ttl,
        wait,
        owner: body.owner,
        reason: body.reason,
        is_hold: false,
    };
    let (guard, permit) = acquire::acquire(&app, &caller, request).await?;
    // No await from here on: the session and its delivery are registered together.
    let (lease, token) =
        (LeaseJson::new(guard.lease(), &name, ttl, &app.locker, arrived), guard.lease().token());
    app.sessions.insert(guard, ttl, permit);
    if let Some(Extension(connection)) = connection {
        connection.delivery.track(Undelivered::new(app.sessions.clone(), name, token));
    }
    Ok(json(&lease))
}

/// Extends a lock
///
/// Any sidecar on the same nodes can do so, even after a restart: then send the `names` that are held
/// together, or the `slot` of a permit.
#[utoipa::path(post, path = "/v1/locks/{name}/extend", tag = "locks", params(("name" = String, Path,)),
    request_body = request::Extend, responses(
    (status = 200, body = LeaseJson), (status = 410, description = "lost"), (status = 503, description = "no_quorum")))]
pub(crate) async fn extend(
    State(app): State<Arc<AppState>>,
    _: CanLock,
    StoredName(name): StoredName,
    Json(body): Json<request::Extend>,
) -> Result<Response, Problem> {
    let arrived = app.locker.now();
    let (token, named) = (parse_token(&body.token)?, body.covered(&name)?);
    let ttl = body.ttl_ms.map(Duration::from_millis);
    let found = app.sessions.find(&name, token).filter(|(lease, _)| !is_over(lease));
    let Some((lease, last_ttl)) = found else {
        let names = app.claims.names(&name, token).unwrap_or(named);
        return extend_unknown(&app, &name, names, token, ttl.unwrap_or(app.ttl)).await;
    };
    let ttl = ttl.unwrap_or(last_ttl);
    match lease.extend_by(ttl).await {
        Ok(_) => {
            app.sessions.set_ttl(token, ttl);
            Ok(json(&LeaseJson::new(&lease, &name, ttl, &app.locker, arrived)))
        }
        Err(ExtendError::Lost(lost)) => {
            if let Some(guard) = app.sessions.remove(&name, token) {
                guard.detach();
            }
            Err(Problem::lost(&lost))
        }
        Err(error) => Err(error.into()),
    }
}

/// Extends a lock that another sidecar granted, or this one before a restart.
async fn extend_unknown(
    app: &AppState,
    name: &Name,
    names: NameSet,
    token: Token,
    ttl: Duration,
) -> Result<Response, Problem> {
    let arrived = app.locker.now();
    let extended = app.locker.stored(names.clone()).extend_token(token, ttl).await?;
    let quorum = app.locker.quorum();
    // `left` was measured during the round: counted from before it, the end is never too late.
    let validity = Validity::at(arrived, extended.left, arrived);
    Ok(json(&LeaseJson {
        name: name.topic().to_string(),
        names: several(names.as_slice()),
        slot: slot(names.as_slice()),
        mode: None,
        token: token.to_string(),
        fence: extended.fence.map(|fence| fence.get()),
        ttl_ms: millis(ttl),
        remaining_ms: validity.remaining_ms,
        request_age_ms: validity.request_age_ms,
        deadline_boot_ms: validity.deadline_boot_ms,
        votes: extended.votes,
        nodes: quorum.nodes(),
        quorum: quorum.needed(),
    }))
}

/// Releases a lock
#[utoipa::path(post, path = "/v1/locks/{name}/release", tag = "locks", params(("name" = String, Path,)),
    request_body = request::Release, responses(
    (status = 200, body = Released), (status = 410, description = "lost: it is gone already, or was never yours")))]
pub(crate) async fn release(
    State(app): State<Arc<AppState>>,
    _: CanLock,
    StoredName(name): StoredName,
    Json(body): Json<request::Release>,
) -> Result<Response, Problem> {
    let (token, named) = (parse_token(&body.token)?, body.covered(&name)?);
    let outcome = release_by_token(&app, &name, named, token).await;
    respond(&name, &outcome)
}

/// Releases the lock of the client that holds it with this token
#[utoipa::path(post, path = "/v1/locks/{name}/force-release", tag = "locks", params(("name" = String, Path,)),
    request_body = request::Release, responses(
    (status = 200, body = Released), (status = 403, description = "forbidden: needs scope write"),
    (status = 410, description = "lost: it is gone already")))]
pub(crate) async fn force_release(
    State(app): State<Arc<AppState>>,
    CanWrite(caller): CanWrite,
    StoredName(name): StoredName,
    Json(body): Json<request::Release>,
) -> Result<Response, Problem> {
    let (token, named) = (parse_token(&body.token)?, body.covered(&name)?);
    // In a task of its own: a caller that disconnects cannot keep its call out of the event log.
    let forcing = tokio::spawn(force(app, name.clone(), named, token, caller));
    let outcome = forcing.await.map_err(|_| Problem::internal())?;
    respond(&name, &outcome)
}

/// Releases the lock of another client by force, and records the caller.
async fn force(
    app: Arc<AppState>,
    name: Name,
    named: NameSet,
    token: Token,
    caller: Caller,
) -> ReleaseOutcome {
    let claimed = app.claims.names(&name, token);
    let guard = app.sessions.remove(&name, token);
    // Before the nodes free it, so that the next caller of this sidecar finds no claim to it.
    if claimed.is_some() {
        app.claims.end(token);
    }
    let lock = app.locker.stored(claimed.unwrap_or(named));
    // The library logs the release; the span adds the caller.
    let secret = caller.secret.as_deref().unwrap_or("-");
    let (peer, scope) = (caller.source, caller.scope.word());
    let span = tracing::warn_span!(target: "quorlock", "force_release", %peer, scope, secret);
    let outcome = lock.force_release(token).instrument(span).await;
    app.event_log.record_force_release(&name.topic(), &outcome, &caller);
    app.sessions.check_hold(token);
    drop(guard);
    outcome
}

/// How long a hold may take to release its lock for a call. It does not answer while its connection is full.
const HOLD_ANSWERS: Duration = Duration::from_millis(500);

/// Releases the lock that the caller holds with `token`, acquired through this sidecar, or through another
/// one under the names `named`.
async fn release_by_token(app: &AppState, name: &Name, named: NameSet, token: Token) -> ReleaseOutcome {
    let claimed = app.claims.names(name, token);
    match app.sessions.remove(name, token) {
        Some(guard) if !is_over(guard.lease()) => return guard.release().await,
        // It is over by our clock, but another sidecar may have extended it.
        Some(guard) => guard.detach(),
        None => {}
    }
    if claimed.is_some()
        && let Some(outcome) = app.sessions.release_hold(token, HOLD_ANSWERS).await
    {
        return outcome;
    }
    // Before the nodes free it, so that the next caller of this sidecar finds no claim to it.
    if claimed.is_some() {
        app.claims.end(token);
    }
    let outcome = app.locker.stored(claimed.unwrap_or(named)).release_token(token).await;
    app.sessions.check_hold(token);
    outcome
}

fn respond(name: &Name, outcome: &ReleaseOutcome) -> Result<Response, Problem> {
    match outcome {
        ReleaseOutcome::AlreadyGone => {
            let detail =
                format!("lock `{name}` is not held under this token: it was released, or its time ran out");
            Err(Problem::new(ProblemCode::Lost, detail))
        }
        outcome => Ok(json(&Released { outcome: outcome.kind() })),
    }
}
