//! A lock that is held as long as a connection is open.

use crate::api::callers::CanLock;
use crate::api::locks::acquire::{AcquireRequest, acquire};
use crate::api::request;
use crate::api::request::{HoldQuery, LockName};
use crate::api::response::{KEEP_ALIVE, event, event_stream};
use crate::api::state::AppState;
use crate::auth::caller::Caller;
use crate::json::leader::LeadershipJson;
use crate::json::lease::{LeaseJson, Validity};
use crate::problem::Problem;
use crate::sessions::claims::ClaimedGuard;
use crate::sessions::{HoldCall, HoldCount, SessionPermit};
use axum::extract::State;
use axum::http::header::ALLOW;
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use quorlock::{Lost, Moment, Name};
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for the lock by default.
const DEFAULT_WAIT: Duration = Duration::from_secs(10);
/// The longest silence on a stream.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Holds a lock as long as the connection is open
///
/// Server-sent events: `held` (a lease), `extended` (`remaining_ms`, `request_age_ms` and
/// `deadline_boot_ms`, as in a lease), `lost` and `shutdown`; after the last two the stream ends. The
/// lock is lost when the last deadline is over, even if comments still come. The sidecar keeps the lock
/// alive, and releases it as soon as the connection ends.
#[utoipa::path(get, path = "/v1/locks/{name}/hold", tag = "locks", params(("name" = String, Path,), request::Acquire),
    responses((status = 200, content_type = "text/event-stream", body = String),
    (status = 408, description = "wait_over"), (status = 409, description = "held, names_held, no_permit, slots_differ or contended"),
    (status = 429, description = "too_many_waiters or too_many_names")))]
pub(crate) async fn hold(
    State(app): State<Arc<AppState>>,
    method: Method,
    CanLock(caller): CanLock,
    LockName(name): LockName,
    HoldQuery(query): HoldQuery,
) -> Result<Response, Problem> {
    if method == Method::HEAD {
        return Ok(refuse_head());
    }
    let wait = query.wait(DEFAULT_WAIT)?;
    let ttl = query.ttl_ms.map_or(app.ttl, Duration::from_millis);
    let target = query.target(&name)?;
    let request =
        AcquireRequest { target, ttl, wait, owner: query.owner, reason: query.reason, is_hold: true };
    hold_while_connected(app, &caller, request, Opening::Held(name)).await
}

/// Refuses a HEAD request, which has no body that could keep a lock.
pub(crate) fn refuse_head() -> Response {
    let mut refused = Problem::wrong_method().into_response();
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    refused
}

/// Acquires what `request` wants, and streams events while it is held; the first is `opening`.
pub(crate) async fn hold_while_connected(
    app: Arc<AppState>,
    caller: &Caller,
    request: AcquireRequest,
    opening: Opening,
) -> Result<Response, Problem> {
    let (arrived, ttl) = (app.locker.now(), request.ttl);
    let (guard, permit) = acquire(&app, caller, request).await?;
    let count = app.sessions.count_hold(guard.lease().token());
    let (guard, opening) = (Some(guard), Some(opening));
    let hold = Hold { app, ttl, arrived, guard, opening, left: ttl, _permit: permit, count };
    Ok(event_stream(unfold(hold, |mut hold| async {
        let event = hold.next().await?;
        Some((Ok::<_, Infallible>(event), hold))
    })))
}

/// The first event of a stream.
#[derive(Debug)]
pub(crate) enum Opening {
    /// `held`: the caller holds what it asked for under this name.
    Held(Name),
    /// `leading`: the caller leads this election, with this value.
    Leading(Name, String),
}

impl Opening {
    fn event(&self, lease: impl Fn(&Name) -> LeaseJson) -> Bytes {
        match self {
            Self::Held(name) => event(None, "held", &lease(name)),
            Self::Leading(name, value) => {
                event(None, "leading", &LeadershipJson::new(lease(name), value.clone()))
            }
        }
    }
}

/// A lock and the stream that it belongs to. Dropped with its connection, it releases the lock.
struct Hold {
    app: Arc<AppState>,
    ttl: Duration,
    /// When the request came.
    arrived: Moment,
    /// `None` once it is over.
    guard: Option<ClaimedGuard>,
    /// The first event, until it was sent.
    opening: Option<Opening>,
    /// How much time was left at the last heartbeat.
    left: Duration,
    _permit: SessionPermit,
    count: HoldCount,
}

/// Why a hold woke up.
enum Wakeup {
    Lost(Lost),
    Shutdown,
    Call(HoldCall),
    Heartbeat,
}

impl Hold {
    /// The next event; `None` after the last.
    async fn next(&mut self) -> Option<Bytes> {
        let guard = self.guard.take()?;
        if let Some(opening) = self.opening.take() {
            let lease =
                |name: &Name| LeaseJson::new(guard.lease(), name, self.ttl, &self.app.locker, self.arrived);
            let first = opening.event(lease);
            self.guard = Some(guard);
            return Some(first);
        }
        let heartbeat = (self.ttl / 6).min(HEARTBEAT);
        // This future owns the guard while it waits: dropped with it, the guard releases the lock.
        let wakeup = tokio::select! {
            biased;
            lost = guard.lease().lost() => Wakeup::Lost(lost),
            () = self.app.closing.cancelled() => Wakeup::Shutdown,
            call = self.count.call() => Wakeup::Call(call),
            () = tokio::time::sleep(heartbeat) => Wakeup::Heartbeat,
        };
        match wakeup {
            Wakeup::Lost(lost) => {
                guard.drop_lost();
                let reason = json!({ "reason": lost.reason.kind(), "text": lost.reason.to_string() });
                Some(event(None, "lost", &reason))
            }
            Wakeup::Shutdown => {
                let outcome = guard.release().await;
                Some(event(None, "shutdown", &json!({ "outcome": outcome.kind() })))
            }
            Wakeup::Call(HoldCall::Release(answer)) => {
                // The caller may be gone by now; the lock is released all the same.
                let _ = answer.send(guard.release().await);
                let reason = json!({ "reason": "released", "text": "it was released by its token" });
                Some(event(None, "lost", &reason))
            }
            Wakeup::Call(HoldCall::Check) => {
                // Ask the nodes. If they no longer have it, it is lost, and the next event says so.
                let _ = guard.lease().extend().await;
                self.guard = Some(guard);
                Some(KEEP_ALIVE)
            }
            Wakeup::Heartbeat => {
                let left = guard.lease().remaining();
                let is_extended = left > self.left.saturating_sub(heartbeat / 2);
                self.left = left;
                let validity = Validity::of(guard.lease(), &self.app.locker, self.arrived);
                self.guard = Some(guard);
                Some(if is_extended { event(None, "extended", &validity) } else { KEEP_ALIVE })
            }
        }
    }
}
