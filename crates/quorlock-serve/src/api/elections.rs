//! Elections: who leads, following the leaders, and leading while a connection is open.

use crate::api::callers::{CanLock, CanRead};
use crate::api::locks::acquire::AcquireRequest;
use crate::api::locks::hold::{Opening, hold_while_connected, refuse_head};
use crate::api::locks::target::Target;
use crate::api::request::{Campaign, Fields, LockName, Query};
use crate::api::response::{KEEP_ALIVE, event, event_stream, json};
use crate::api::state::AppState;
use crate::json::leader::{ElectionJson, LeaderJson, VacancyJson};
use crate::problem::Problem;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use quorlock::{Fence, LeaderChange, Observation};
use serde::Deserialize;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use utoipa::IntoParams;

/// The longest silence on a stream.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long to wait after too few nodes answered.
const RETRY: Duration = Duration::from_secs(1);

/// Which leaders an observer wants.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ObserveQuery {
    /// Send only leaders of a higher term, and that the leader of this term is gone.
    after: Option<u64>,
}

impl Fields for ObserveQuery {
    const FIELDS: &'static str = "after (a whole number: the last term that you know)";
}

/// Returns who leads an election
#[utoipa::path(get, path = "/v1/elections/{name}", tag = "elections", params(("name" = String, Path,)), responses(
    (status = 200, body = ElectionJson), (status = 503, description = "no_quorum")))]
pub(crate) async fn leader(
    State(app): State<Arc<AppState>>,
    _: CanRead,
    LockName(name): LockName,
) -> Result<Response, Problem> {
    let leader = app.locker.election(&name)?.leader().await?;
    Ok(json(&ElectionJson { name: name.to_string(), leader: leader.as_ref().map(LeaderJson::from) }))
}

/// Streams who leads an election
///
/// Server-sent events: `leader` for the current one and for each that follows, with the term as its id;
/// `vacant` when no candidate leads after one that was sent or is named by `after`, with the term of that
/// leader as its id and as `last_term`; and `no_quorum` if too few nodes answer. The stream then goes on.
/// Terms never fall. What lasted only for a moment may be left out.
#[utoipa::path(get, path = "/v1/elections/{name}/observe", tag = "elections",
    params(("name" = String, Path,), ObserveQuery),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(crate) async fn observe(
    State(app): State<Arc<AppState>>,
    _: CanRead,
    LockName(name): LockName,
    headers: HeaderMap,
    Query(query): Query<ObserveQuery>,
) -> Result<Response, Problem> {
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.trim().parse().ok());
    let after = seen.or(query.after).map(Fence::new);
    let leaders = app.locker.election(&name)?.observe_after(after);
    let observer = Observer { app, leaders, has_begun: false, failed: false };
    Ok(event_stream(unfold(observer, |mut observer| async {
        let event = observer.next().await?;
        Some((Ok::<_, Infallible>(event), observer))
    })))
}

/// Leads an election as long as the connection is open
///
/// The response comes when the caller leads. Server-sent events: `leading` (a lease, with `value` and
/// `term`), then as for a hold: `extended`, `lost` and `shutdown`; after the last two the stream ends. The
/// sidecar keeps the leadership alive, and resigns as soon as the connection ends.
#[utoipa::path(get, path = "/v1/elections/{name}/campaign", tag = "elections",
    params(("name" = String, Path,), Campaign),
    responses((status = 200, content_type = "text/event-stream", body = String),
    (status = 408, description = "wait_over"), (status = 409, description = "held or contended"),
    (status = 429, description = "too_many_waiters or too_many_names")))]
pub(crate) async fn campaign(
    State(app): State<Arc<AppState>>,
    method: Method,
    CanLock(caller): CanLock,
    LockName(election): LockName,
    Query(query): Query<Campaign>,
) -> Result<Response, Problem> {
    if method == Method::HEAD {
        return Ok(refuse_head());
    }
    let wait = query.wait()?;
    let ttl = query.ttl_ms.map_or(app.ttl, Duration::from_millis);
    let opening = Opening::Leading(election.clone(), query.value.clone());
    let target = Target::Leadership { election, value: query.value };
    let request = AcquireRequest { target, ttl, wait, owner: query.owner, reason: None, is_hold: true };
    hold_while_connected(app, &caller, request, opening).await
}

/// What a reader gets for `change`.
fn change_event(change: &LeaderChange) -> Bytes {
    match change {
        LeaderChange::Elected(leader) => {
            let leader = LeaderJson::from(leader);
            event(Some(leader.term), "leader", &leader)
        }
        LeaderChange::Vacant { last_term } => {
            let vacancy = VacancyJson { last_term: last_term.get() };
            event(Some(vacancy.last_term), "vacant", &vacancy)
        }
        // A change of a later version: silence for the reader.
        _ => KEEP_ALIVE,
    }
}

/// A reader of the leaders.
struct Observer {
    app: Arc<AppState>,
    leaders: Observation,
    has_begun: bool,
    /// Whether too few nodes answered last time, and the reader knows.
    failed: bool,
}

impl Observer {
    /// The next event; `None` when the sidecar shuts down.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.has_begun {
            self.has_begun = true;
            // At once, so that the reader sees that it is connected.
            return Some(KEEP_ALIVE);
        }
        let silent = tokio::time::sleep(HEARTBEAT);
        tokio::pin!(silent);
        loop {
            let next = tokio::select! {
                biased;
                () = self.app.closing.cancelled() => return None,
                next = self.leaders.next() => next,
                () = &mut silent => return Some(KEEP_ALIVE),
            };
            match next {
                Ok(change) => {
                    self.failed = false;
                    return Some(change_event(&change));
                }
                Err(error) if !self.failed => {
                    self.failed = true;
                    return Some(event(None, "no_quorum", &json!({ "text": error.to_string() })));
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }
}
