//! The stream of what happens to locks and nodes.

use crate::access::CanRead;
use crate::app::App;
use crate::ask::{Asked, Fields};
use crate::problem::Problem;
use crate::reply::{ALIVE, event, stream};
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

/// The longest silence.
const BEAT: Duration = Duration::from_secs(5);
/// A busy sidecar tells its news in batches.
const BATCH: Duration = Duration::from_millis(20);

/// What a reader wants.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Reader {
    /// Tell what came after the event with this number.
    after: Option<u64>,
    /// Tell frequent events, too: refused, extended, node_failed, waiting.
    #[serde(default)]
    all: bool,
    /// Send only the events of the lock with this name.
    lock: Option<String>,
}

impl Fields for Reader {
    const FIELDS: &'static str = "after (a whole number), all (true or false), lock (a name)";
}

/// Tells what happens to locks and nodes
///
/// Server-sent events, the last 1000 of which are kept for readers that say which they saw last (`Last-Event-ID`).
#[utoipa::path(get, path = "/v1/events", tag = "overview", params(Reader),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    _: CanRead,
    headers: HeaderMap,
    Asked(reader): Asked<Reader>,
) -> Result<Response, Problem> {
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.trim().parse().ok());
    let (newest, news) = app.journal.listen();
    let seen = seen.or(reader.after).unwrap_or(newest);
    let reading = Reading { app, news, seen, all: reader.all, lock: reader.lock, has_begun: false };
    Ok(stream(unfold(reading, |mut reading| async {
        let told = reading.next().await?;
        Some((Ok::<_, Infallible>(told), reading))
    })))
}

/// A reader who has read up to some event.
struct Reading {
    app: Arc<App>,
    news: watch::Receiver<u64>,
    seen: u64,
    all: bool,
    lock: Option<String>,
    has_begun: bool,
}

impl Reading {
    /// What is new; `None` when the sidecar shuts down.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.has_begun {
            self.has_begun = true;
            // At once, so that the reader knows that it is connected.
            return Some(self.read().unwrap_or(ALIVE));
        }
        let silent = tokio::time::sleep(BEAT);
        tokio::pin!(silent);
        loop {
            tokio::select! {
                biased;
                () = self.app.closing.cancelled() => return None,
                changed = self.news.changed() => changed.ok()?,
                () = &mut silent => return Some(ALIVE),
            }
            if let Some(told) = self.read() {
                return Some(told);
            }
            tokio::time::sleep(BATCH).await;
        }
    }

    fn read(&mut self) -> Option<Bytes> {
        let newest = *self.news.borrow_and_update();
        let news = self.app.journal.after(self.seen, self.all);
        let mut told = BytesMut::new();
        if news.has_gap {
            told.extend_from_slice(&event(None, "gap", &json!({ "after": self.seen })));
        }
        for entry in &news.entries {
            let data = entry.to_json();
            if self.lock.as_ref().is_none_or(|lock| data["lock"] == **lock) {
                told.extend_from_slice(&event(Some(entry.seq), entry.kind(), &data));
            }
        }
        let last = news.entries.last().map_or(0, |entry| entry.seq);
        self.seen = if news.has_gap { last.max(newest) } else { self.seen.max(last) };
        (!told.is_empty()).then(|| told.freeze())
    }
}
