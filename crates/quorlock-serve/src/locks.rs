//! Leases by token: acquire, extend, release, force-release.

use crate::access::{Caller, CanLock, CanWrite};
use crate::app::App;
use crate::ask::{self, Json, LockName};
use crate::code::Code;
use crate::delivery::{Delivery, Undelivered};
use crate::problem::Problem;
use crate::reply::json;
use crate::routes;
use crate::sessions::is_over;
use crate::take::{Wish, take};
use crate::view::{Lease, Validity, millis};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use quorlock::{ExtendError, Name, Release, Token};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;
use utoipa::ToSchema;

/// What became of a release.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Released {
    /// `released`, or `unconfirmed`: too few nodes answered, so at the latest the ttl frees the lock.
    outcome: &'static str,
}

/// Takes a lock
///
/// The sidecar does not renew it: extend it before its deadline. If you go away before the answer was
/// written, the lock is released.
#[utoipa::path(post, path = "/v1/locks/{name}/acquire", tag = "locks", params(("name" = String, Path,)),
    request_body = ask::Acquire, responses(
    (status = 200, body = Lease), (status = 408, description = "wait_over"), (status = 409, description = "held or contended"),
    (status = 429, description = "crowded or too_many_names"), (status = 503, description = "no_quorum, too_slow, full or shutting_down")))]
pub(crate) async fn acquire(
    State(app): State<Arc<App>>,
    CanLock(caller): CanLock,
    LockName(name): LockName,
    delivery: Option<Extension<Arc<Delivery>>>,
    Json(asked): Json<ask::Acquire>,
) -> Result<Response, Problem> {
    let wait = asked.wait(Duration::ZERO)?;
    let ttl = asked.ttl_ms.map_or(app.ttl, Duration::from_millis);
    let wish = Wish { name, ttl, wait, owner: asked.owner, reason: asked.reason, is_kept: false };
    let lease = lease(&app, &caller, wish, delivery.map(|Extension(delivery)| delivery)).await?;
    Ok(json(&lease))
}

/// Takes a lock by its token, and sees to it that it does not outlive an answer that never arrives.
async fn lease(
    app: &Arc<App>,
    caller: &Caller,
    wish: Wish,
    delivery: Option<Arc<Delivery>>,
) -> Result<Lease, Problem> {
    let (name, ttl) = (wish.name.clone(), wish.ttl);
    let arrived = app.locker.now();
    let (lent, room) = take(app, caller, wish).await?;
    // No await from here on.
    let lease = Lease::of(&lent, ttl, &app.locker, arrived);
    let token = lent.token();
    app.sessions.keep(lent, ttl, room);
    if let Some(delivery) = delivery {
        delivery.expect(Undelivered::new(app.clone(), name, token));
    }
    Ok(lease)
}

/// Extends a lock
///
/// Any sidecar on the same nodes can do so, also after a restart.
#[utoipa::path(post, path = "/v1/locks/{name}/extend", tag = "locks", params(("name" = String, Path,)),
    request_body = ask::Extend, responses(
    (status = 200, body = Lease), (status = 410, description = "lost"), (status = 503, description = "no_quorum")))]
pub(crate) async fn extend(
    State(app): State<Arc<App>>,
    _: CanLock,
    LockName(name): LockName,
    Json(asked): Json<ask::Extend>,
) -> Result<Response, Problem> {
    let arrived = app.locker.now();
    let token = ask::token(&asked.token)?;
    let ttl = asked.ttl_ms.map(Duration::from_millis);
    let found = app.sessions.find(&name, token).filter(|(held, _)| !is_over(held));
    let Some((held, usual)) = found else {
        return extend_unknown(&app, &name, token, ttl.unwrap_or(app.ttl)).await;
    };
    let ttl = ttl.unwrap_or(usual);
    match held.extend_by(ttl).await {
        Ok(_) => {
            app.sessions.note_ttl(&name, token, ttl);
            Ok(json(&Lease::of(&held, ttl, &app.locker, arrived)))
        }
        Err(ExtendError::Lost(lost)) => {
            if let Some(lent) = app.sessions.take(&name, token) {
                lent.leave();
            }
            Err(Problem::lost(&lost))
        }
        Err(error) => Err(error.into()),
    }
}

/// Extends a lock that another sidecar handed out, or this one before it was restarted.
async fn extend_unknown(app: &App, name: &Name, token: Token, ttl: Duration) -> Result<Response, Problem> {
    let arrived = app.locker.now();
    let extension = app.locker.named(name.as_str())?.extend_token(token, ttl).await?;
    let quorum = app.locker.quorum();
    // What is left was counted during the round, so from before it the end is not later.
    let validity = Validity::at(arrived, extension.left, arrived);
    Ok(json(&Lease {
        name: name.to_string(),
        token: token.to_string(),
        fence: extension.fence.map(|fence| fence.get()),
        ttl_ms: millis(ttl),
        remaining_ms: validity.remaining_ms,
        request_age_ms: validity.request_age_ms,
        deadline_boot_ms: validity.deadline_boot_ms,
        votes: extension.votes,
        nodes: quorum.nodes(),
        quorum: quorum.needed(),
    }))
}

/// Releases a lock
#[utoipa::path(post, path = "/v1/locks/{name}/release", tag = "locks", params(("name" = String, Path,)),
    request_body = ask::Release, responses(
    (status = 200, body = Released), (status = 410, description = "lost: it is gone already, or never was yours")))]
pub(crate) async fn release(
    State(app): State<Arc<App>>,
    _: CanLock,
    LockName(name): LockName,
    Json(asked): Json<ask::Release>,
) -> Result<Response, Problem> {
    let outcome = let_go(&app, &name, ask::token(&asked.token)?).await?;
    told(&name, &outcome)
}

/// Takes a lock away from whoever holds it with this token
#[utoipa::path(post, path = "/v1/locks/{name}/force-release", tag = "locks", params(("name" = String, Path,)),
    request_body = ask::Release, responses(
    (status = 200, body = Released), (status = 403, description = "forbidden: needs scope write"),
    (status = 410, description = "lost: it is gone already")))]
pub(crate) async fn force_release(
    State(app): State<Arc<App>>,
    CanWrite(caller): CanWrite,
    LockName(name): LockName,
    Json(asked): Json<ask::Release>,
) -> Result<Response, Problem> {
    let token = ask::token(&asked.token)?;
    // In a task of its own: a caller that hangs up cannot keep its call out of the journal.
    let forcing = tokio::spawn(force(app, name.clone(), token, caller));
    let outcome = forcing.await.map_err(|_| routes::broken())??;
    told(&name, &outcome)
}

/// Releases the lock of another client by force, and records who did.
async fn force(app: Arc<App>, name: Name, token: Token, caller: Caller) -> Result<Release, Problem> {
    let lock = app.locker.named(name.as_str())?;
    let lent = app.sessions.take(&name, token);
    // Before the nodes free it, so that the next caller of this sidecar finds no claim to it.
    app.claims.end(&name, token);
    // The library logs the release; the span adds who asked for it.
    let secret = caller.secret.as_deref().unwrap_or("-");
    let (peer, scope) = (caller.source, caller.scope.word());
    let span = tracing::warn_span!(target: "quorlock", "force_release", %peer, scope, secret);
    let outcome = lock.force_release(token).instrument(span).await;
    app.journal.note_forced(&name, outcome.kind(), &caller);
    app.sessions.ring(&name);
    drop(lent);
    Ok(outcome)
}

/// Releases the lock that the caller holds with `token`, taken through this sidecar or another.
async fn let_go(app: &App, name: &Name, token: Token) -> Result<Release, Problem> {
    let lock = app.locker.named(name.as_str())?;
    match app.sessions.take(name, token) {
        Some(lent) if !is_over(&lent) => return Ok(lent.release().await),
        // Over here, but another sidecar may have extended it.
        Some(lent) => lent.leave(),
        None => {}
    }
    // Before the nodes free it, so that the next caller of this sidecar finds no claim to it.
    app.claims.end(name, token);
    let outcome = lock.release_token(token).await;
    app.sessions.ring(name);
    Ok(outcome)
}

fn told(name: &Name, outcome: &Release) -> Result<Response, Problem> {
    match outcome {
        Release::AlreadyGone => {
            let detail =
                format!("lock `{name}` is not held under this token: it was released, or its time ran out");
            Err(Problem::new(Code::Lost, detail))
        }
        outcome => Ok(json(&Released { outcome: outcome.kind() })),
    }
}
