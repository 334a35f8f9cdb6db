//! The stream of events.

use crate::api::callers::CanRead;
use crate::api::request::{Fields, Query};
use crate::api::response::{KEEP_ALIVE, event, event_stream};
use crate::api::state::AppState;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::stream::unfold;
use serde::Deserialize;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use utoipa::IntoParams;

/// The longest silence on a stream.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long a busy sidecar collects events before it sends them together.
const BATCH: Duration = Duration::from_millis(20);

/// Which events a reader wants.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventQuery {
    /// Send the events after the one with this number.
    after: Option<u64>,
    /// Send routine events as well: refused, extended, node_failed, waiting.
    #[serde(default)]
    all: bool,
    /// Send only the events of the lock with this name.
    lock: Option<String>,
}

impl Fields for EventQuery {
    const FIELDS: &'static str = "after (a whole number), all (true or false), lock (a name)";
}

/// Streams what happens to locks and nodes
///
/// Server-sent events. The last 1000 are kept for readers that send the number of the last one they saw
/// (`Last-Event-ID`).
#[utoipa::path(get, path = "/v1/events", tag = "overview", params(EventQuery),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(crate) async fn events(
    State(app): State<Arc<AppState>>,
    _: CanRead,
    headers: HeaderMap,
    Query(query): Query<EventQuery>,
) -> Result<Response, Problem> {
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.trim().parse().ok());
    let (newest, updates) = app.event_log.subscribe();
    let seen = seen.or(query.after).unwrap_or(newest);
    let reader = Reader { app, updates, seen, all: query.all, lock: query.lock, has_begun: false };
    Ok(event_stream(unfold(reader, |mut reader| async {
        let events = reader.next().await?;
        Some((Ok::<_, Infallible>(events), reader))
    })))
}

/// A reader of the stream.
struct Reader {
    app: Arc<AppState>,
    updates: watch::Receiver<u64>,
    /// The number of the last event that it was sent.
    seen: u64,
    all: bool,
    lock: Option<String>,
    has_begun: bool,
}

impl Reader {
    /// The next events; `None` when the sidecar shuts down.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.has_begun {
            self.has_begun = true;
            // At once, so that the reader sees that it is connected.
            return Some(self.read().unwrap_or(KEEP_ALIVE));
        }
        let silent = tokio::time::sleep(HEARTBEAT);
        tokio::pin!(silent);
        loop {
            tokio::select! {
                biased;
                () = self.app.closing.cancelled() => return None,
                changed = self.updates.changed() => changed.ok()?,
                () = &mut silent => return Some(KEEP_ALIVE),
            }
            if let Some(events) = self.read() {
                return Some(events);
            }
            tokio::time::sleep(BATCH).await;
        }
    }

    fn read(&mut self) -> Option<Bytes> {
        let newest = *self.updates.borrow_and_update();
        let batch = self.app.event_log.after(self.seen, self.all);
        let mut events = BytesMut::new();
        if batch.has_gap {
            events.extend_from_slice(&event(None, "gap", &json!({ "after": self.seen })));
        }
        for entry in &batch.entries {
            let data = entry.to_json();
            if self.lock.as_ref().is_none_or(|lock| data["lock"] == **lock) {
                events.extend_from_slice(&event(Some(entry.seq), entry.kind(), &data));
            }
        }
        let last = batch.entries.last().map_or(0, |entry| entry.seq);
        self.seen = if batch.has_gap { last.max(newest) } else { self.seen.max(last) };
        (!events.is_empty()).then(|| events.freeze())
    }
}
