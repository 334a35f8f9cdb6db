//! A lock that lives as long as a connection.

use crate::access::CanLock;
use crate::app::App;
use crate::ask::{self, Asked, LockName};
use crate::claims::Lent;
use crate::problem::Problem;
use crate::reply::{ALIVE, event, stream};
use crate::routes;
use crate::sessions::{Counted, Room};
use crate::take::{Wish, take};
use crate::view::{Lease, Validity};
use axum::extract::State;
use axum::http::header::ALLOW;
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use quorlock::{Lost, Moment};
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for the lock unless the caller says so.
const WAIT: Duration = Duration::from_secs(10);
/// The longest silence.
const BEAT: Duration = Duration::from_secs(5);

/// Holds a lock as long as the connection is open
///
/// Server-sent events: `held` (a lease), `extended` (`remaining_ms`, `request_age_ms` and `deadline_boot_ms`, as in a
/// lease), `lost` and `shutdown`, the last two being the end. The lock is lost when the last deadline is over, even if
/// comments still come. The sidecar keeps the lock alive, and releases it the moment the connection ends.
#[utoipa::path(get, path = "/v1/locks/{name}/hold", tag = "locks", params(("name" = String, Path,), ask::Acquire),
    responses((status = 200, content_type = "text/event-stream", body = String),
    (status = 408, description = "wait_over"), (status = 409, description = "held or contended"),
    (status = 429, description = "crowded or too_many_names")))]
pub(crate) async fn hold(
    State(app): State<Arc<App>>,
    method: Method,
    CanLock(caller): CanLock,
    LockName(name): LockName,
    Asked(asked): Asked<ask::Acquire>,
) -> Result<Response, Problem> {
    // A lock for nothing but its headers.
    if method == Method::HEAD {
        let mut refused = routes::wrong_method().await.into_response();
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return Ok(refused);
    }
    let arrived = app.locker.now();
    let wait = asked.wait(WAIT)?;
    let ttl = asked.ttl_ms.map_or(app.ttl, Duration::from_millis);
    let wish = Wish { name, ttl, wait, owner: asked.owner, reason: asked.reason, is_kept: true };
    let (lent, room) = take(&app, &caller, wish).await?;
    let counted = app.sessions.count_hold(lent.name());
    let lent = Some(lent);
    let holding = Holding { app, ttl, arrived, lent, is_told: false, left: ttl, _room: room, counted };
    Ok(stream(unfold(holding, |mut holding| async {
        let event = holding.next().await?;
        Some((Ok::<_, Infallible>(event), holding))
    })))
}

/// A lock and the connection that it belongs to. Dropped with the connection, it releases the lock.
struct Holding {
    app: Arc<App>,
    ttl: Duration,
    /// When the request came.
    arrived: Moment,
    /// `None` once it is over.
    lent: Option<Lent>,
    is_told: bool,
    /// How much time was left when we last looked.
    left: Duration,
    _room: Room,
    counted: Counted,
}

/// What happened to a lock that is held.
enum Happened {
    Lost(Lost),
    Shutdown,
    /// Somebody may have released it.
    Doubt,
    Nothing,
}

impl Holding {
    /// The next event; `None` after the last.
    async fn next(&mut self) -> Option<Bytes> {
        let lent = self.lent.take()?;
        if !self.is_told {
            self.is_told = true;
            let lease = Lease::of(&lent, self.ttl, &self.app.locker, self.arrived);
            self.lent = Some(lent);
            return Some(event(None, "held", &lease));
        }
        let beat = (self.ttl / 6).min(BEAT);
        // The lock lives in this future while it waits: dropped with it, the lock is released.
        let happened = tokio::select! {
            biased;
            lost = lent.lost() => Happened::Lost(lost),
            () = self.app.closing.cancelled() => Happened::Shutdown,
            () = self.counted.rung() => Happened::Doubt,
            () = tokio::time::sleep(beat) => Happened::Nothing,
        };
        match happened {
            Happened::Lost(lost) => {
                lent.give_up();
                let reason = json!({ "reason": lost.loss.kind(), "text": lost.loss.to_string() });
                Some(event(None, "lost", &reason))
            }
            Happened::Shutdown => {
                let outcome = lent.release().await;
                Some(event(None, "shutdown", &json!({ "outcome": outcome.kind() })))
            }
            Happened::Doubt => {
                // The nodes know. If they no longer have it, it is lost, and the next event says so.
                let _ = lent.extend().await;
                self.lent = Some(lent);
                Some(ALIVE)
            }
            Happened::Nothing => {
                let left = lent.remaining();
                let is_extended = left > self.left.saturating_sub(beat / 2);
                self.left = left;
                let validity = Validity::of(&lent, &self.app.locker, self.arrived);
                self.lent = Some(lent);
                Some(if is_extended { event(None, "extended", &validity) } else { ALIVE })
            }
        }
    }
}
