//! Hints: the deletion of a key that holds a name, by its holder or by the end of its lease, notifies the
//! waiter for the name.

use crate::node::etcd::client::api::Api;
use crate::node::etcd::client::cluster::Header;
use crate::node::etcd::client::http::{Opened, lost};
use crate::node::etcd::lock_store::Store;
use crate::node::server_text::server_text;
use crate::node::{NodeError, Wakeup};
use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use quorlock_core::Name;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// How long after a watch broke the next one is tried, at first and at most.
const DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// A watch that reported nothing for this long is begun again: its member may be cut off.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);
/// The longest line of a watch that is read.
const LONGEST_LINE: usize = 1 << 20;

/// A watch over one name.
pub(crate) struct Watch {
    api: Arc<Api>,
    body: Incoming,
    /// The member that reports the changes.
    endpoint: usize,
    read: BytesMut,
    /// Whether something was reported before all was watched.
    has_news: bool,
}

/// One line of a watch.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WatchLine {
    result: WatchResult,
    error: Option<serde_json::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WatchResult {
    header: Header,
    created: bool,
    canceled: bool,
    events: Vec<serde_json::Value>,
}

impl Watch {
    /// Watches `name`. What happens after the revision `since` is reported, or what happens after this
    /// returned if that is 0.
    pub(crate) async fn begin(
        store: &Store,
        name: &Name,
        since: u64,
        limit: Duration,
    ) -> Result<Self, NodeError> {
        let begun = async {
            let ranges = store.keys(name).watched();
            let Opened { body, endpoint, .. } = store.api.watch(&ranges, since).await?;
            let (api, read) = (store.api.clone(), BytesMut::new());
            let mut watch = Self { api, body, endpoint, read, has_news: false };
            let mut begun = 0;
            while begun < ranges.len() {
                let line = watch.line().await?;
                begun += usize::from(line.created);
                watch.has_news |= !line.events.is_empty();
            }
            Ok(watch)
        };
        let begun = timeout(limit, begun).await;
        match &begun {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => store.api.renew_auth_token().await,
            Err(_) => store.api.leave_member(),
        }
        begun.unwrap_or(Err(NodeError::Timeout { after: limit }))
    }

    /// Notifies `wakeup` of every deletion, until this watch reports nothing more.
    async fn listen(mut self, wakeup: &Wakeup, member_changes: &mut watch::Receiver<Vec<u64>>) {
        let before = member_changes.borrow_and_update()[self.endpoint];
        if self.has_news {
            wakeup.notify();
        }
        loop {
            tokio::select! {
                biased;
                result = timeout(LONGEST_SILENCE, self.line()) => match result {
                    Ok(Ok(result)) if !result.events.is_empty() => wakeup.notify(),
                    Ok(Ok(_)) => {}
                    Ok(Err(_)) | Err(_) => return,
                },
                // The member that is watched does not answer other calls.
                Ok(()) = member_changes.changed() => {
                    if member_changes.borrow_and_update()[self.endpoint] != before {
                        return;
                    }
                }
            }
        }
    }

    /// The next line.
    async fn line(&mut self) -> Result<WatchResult, NodeError> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let result = parse_line(&self.read.split_to(end + 1))?;
                self.api.accept(result.header, self.endpoint, 0)?;
                return Ok(result);
            }
            if self.read.len() > LONGEST_LINE {
                return Err(protocol("a line of a watch does not end"));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        self.read.extend_from_slice(&piece);
                    }
                }
                Some(Err(error)) => return Err(lost(&error)),
                None => return Err(protocol("the watch has ended")),
            }
        }
    }
}

/// Notifies `wakeup` whenever a holder of `name` or of one of its slots was deleted, for as long as it is
/// polled. `watch` comes first, if it could be begun; one that broke, or may be cut off, is begun again.
pub(crate) async fn notify(
    mut watch: Option<Watch>,
    store: Store,
    name: Name,
    wakeup: Wakeup,
    limit: Duration,
) {
    let mut member_changes = store.api.member_changes();
    let mut delay = DELAYS.0;
    loop {
        if let Some(watch) = watch.take() {
            let since = Instant::now();
            watch.listen(&wakeup, &mut member_changes).await;
            // One that ends at once must not be begun again and again.
            if since.elapsed() >= DELAYS.1 {
                delay = DELAYS.0;
            }
        }
        sleep(delay).await;
        delay = (delay * 2).min(DELAYS.1);
        watch = Watch::begin(&store, &name, 0, limit).await.ok();
        if watch.is_some() {
            // Whatever happened in between was not reported.
            wakeup.notify();
        }
    }
}

fn parse_line(line: &[u8]) -> Result<WatchResult, NodeError> {
    let line: WatchLine = serde_json::from_slice(line)
        .map_err(|error| protocol(&format!("a watch cannot be read: {}", server_text(error.to_string()))))?;
    match line.error {
        Some(error) => Err(protocol(&format!("the watch was ended: {}", server_text(error.to_string())))),
        None if line.result.canceled => Err(protocol("the watch was ended")),
        None => Ok(line.result),
    }
}

fn protocol(reason: &str) -> NodeError {
    crate::node::etcd::client::api::protocol(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_watch_are_distinguished() {
        assert!(parse_line(br#"{"result":{"header":{"revision":"1"},"created":true}}"#).unwrap().created);
        let freed =
            parse_line(br#"{"result":{"header":{},"events":[{"type":"DELETE","kv":{"key":"YQ=="}}]}}"#);
        assert_eq!(freed.unwrap().events.len(), 1);
        for bad in [r#"{"error":{"code":14}}"#, r#"{"result":{"canceled":true}}"#, "x"] {
            assert!(parse_line(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
