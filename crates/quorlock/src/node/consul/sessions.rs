//! Sessions: what ends the lock of a holder that died.
//!
//! A session is never renewed, so it ends no earlier than its ttl after the request that created it, whichever server
//! leads. One that was created a moment ago serves several locks: it lasts a quarter longer than they do.

use crate::context::clock::Clock;
use crate::context::mutex::Mutex as SyncMutex;
use crate::node::NodeError;
use crate::node::consul::client::api::{Api, protocol};
use crate::node::engine::Failure;
use quorlock_core::Moment;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

/// The shortest and the longest ttl of a session, unless the servers are set up otherwise.
const SHORTEST: Duration = Duration::from_secs(10);
pub(crate) const LONGEST: Duration = Duration::from_secs(86_400);
/// Sessions last for a multiple of this.
const UNIT: Duration = Duration::from_millis(100);
/// The most ttls whose sessions are kept for the next lock.
const MAX_CURRENT: usize = 16;
/// A session that was not renewed ends after twice its ttl, and a new server that leads begins to count anew. After
/// this many ttls it is forgotten here.
const FORGOTTEN_AFTER: u32 = 8;

/// One session of this client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) ttl: Duration,
    /// Before the request that created it was sent.
    created: Moment,
    /// Whether locks that are not counted depend on it, so that only its ttl may end it.
    is_kept: AtomicBool,
}

impl Session {
    /// Until when it exists for sure.
    pub(crate) fn ends(&self) -> Moment {
        self.created + self.ttl
    }

    /// Whether a lock that is taken at `now` for `ttl` ends before the session does, even if our clock is a little
    /// slower than that of the servers.
    pub(crate) fn covers(&self, now: Moment, ttl: Duration) -> bool {
        let spare = self.ttl.saturating_sub(ttl);
        now.since(self.created) <= spare - spare / 10
    }

    /// Leaves it to its ttl to end the session.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }
}

/// The sessions of one client.
#[derive(Debug)]
pub(crate) struct Sessions {
    api: Arc<Api>,
    clock: Arc<dyn Clock>,
    /// By their ttl, those that the next lock may use. Locked while one is created, so that one is.
    current: Mutex<BTreeMap<Duration, Arc<Session>>>,
    /// Those that no further lock uses.
    retired: SyncMutex<Vec<Arc<Session>>>,
    /// Sessions that are being ended.
    ending: TaskTracker,
}

impl Sessions {
    pub(crate) fn new(api: Arc<Api>, clock: Arc<dyn Clock>) -> Self {
        Self {
            api,
            clock,
            current: Mutex::default(),
            retired: SyncMutex::default(),
            ending: TaskTracker::new(),
        }
    }

    /// A session that outlives a lock which is taken now for `ttl`. It is not ended while the returned value or a
    /// clone of it exists.
    ///
    /// # Errors
    /// Why there is none. A session that was created in spite of that locks nothing.
    pub(crate) async fn get(&self, ttl: Duration) -> Result<Arc<Session>, NodeError> {
        let session_ttl = session_ttl(ttl)?;
        let mut current = self.current.lock().await;
        let reusable = current.get(&session_ttl);
        if let Some(session) = reusable.filter(|session| session.covers(self.clock.now(), ttl)) {
            return Ok(session.clone());
        }
        let session = self.create(session_ttl, &current).await?;
        if current.len() >= MAX_CURRENT
            && let Some((_, other)) = current.pop_first()
        {
            self.retire(other);
        }
        if let Some(before) = current.insert(session_ttl, session.clone()) {
            self.retire(before);
        }
        drop(current);
        self.end_unused();
        Ok(session)
    }

    /// A new session that lasts for `ttl` and as long as a lock of `lock_ttl` needs, and serves no other lock.
    pub(crate) async fn single(&self, ttl: Duration, lock_ttl: Duration) -> Result<Arc<Session>, NodeError> {
        let session_ttl = session_ttl(lock_ttl)?.max(ttl).min(LONGEST);
        let session = self.create(session_ttl, &*self.current.lock().await).await?;
        self.retire(session.clone());
        Ok(session)
    }

    /// No further lock uses `session`: it has ended.
    pub(crate) async fn discard(&self, session: &Arc<Session>) {
        let mut current = self.current.lock().await;
        if current.get(&session.ttl).is_some_and(|other| other.id == session.id) {
            current.remove(&session.ttl);
        }
    }

    /// Ends every session that no lock uses, and waits for that.
    pub(crate) async fn finish(&self) {
        let current = std::mem::take(&mut *self.current.lock().await);
        self.retired.lock().extend(current.into_values());
        self.end_unused();
        self.ending.close();
        self.ending.wait().await;
    }

    async fn create(
        &self,
        ttl: Duration,
        current: &BTreeMap<Duration, Arc<Session>>,
    ) -> Result<Arc<Session>, NodeError> {
        let created = self.clock.now();
        let id = self.api.create_session(ttl).await.map_err(Failure::into_error)?;
        let is_known = current.values().chain(self.retired.lock().iter()).any(|session| session.id == id);
        if is_known || id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
            // An answer that the network repeated would give an old session a new age.
            return Err(protocol("it answered a new session with an old id"));
        }
        Ok(Arc::new(Session { id, ttl, created, is_kept: AtomicBool::new(false) }))
    }

    fn retire(&self, session: Arc<Session>) {
        self.retired.lock().push(session);
    }

    /// Ends the retired sessions that no lock uses, without waiting for it: if that fails, their ttl ends them.
    fn end_unused(&self) {
        let now = self.clock.now();
        let mut retired = self.retired.lock();
        let all = std::mem::take(&mut *retired);
        for session in all {
            if session.is_kept.load(Ordering::Relaxed)
                || now.since(session.created) > FORGOTTEN_AFTER * session.ttl
            {
                continue;
            }
            if Arc::strong_count(&session) > 1 {
                retired.push(session);
                continue;
            }
            let api = self.api.clone();
            self.ending.spawn(async move { drop(api.destroy_session(&session.id).await) });
        }
    }
}

/// The ttl of a session for locks of `ttl`: a quarter longer.
fn session_ttl(ttl: Duration) -> Result<Duration, NodeError> {
    if ttl > LONGEST {
        let message =
            format!("a ttl of {ttl:?} is too long: Consul ends sessions after {LONGEST:?} at the latest");
        return Err(NodeError::Server { message: message.into() });
    }
    let wanted = (ttl + ttl / 4).as_millis().div_ceil(UNIT.as_millis());
    let units = u32::try_from(wanted).unwrap_or(u32::MAX);
    Ok((UNIT * units).clamp(SHORTEST, LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lasts_a_quarter_longer_than_its_locks_and_within_what_consul_allows() {
        let seconds = Duration::from_secs;
        for (ttl, session) in [(1, 10_000), (8, 10_000), (10, 12_500), (30, 37_500), (86_400, 86_400_000)] {
            assert_eq!(session_ttl(seconds(ttl)).unwrap(), Duration::from_millis(session), "{ttl}");
        }
        assert_eq!(session_ttl(Duration::from_millis(10_001)).unwrap(), Duration::from_millis(12_600));
        assert!(session_ttl(seconds(86_401)).unwrap_err().to_string().contains("too long"));
    }

    #[test]
    fn a_session_serves_a_lock_only_if_it_outlives_it() {
        let at = |millis| Moment::from_boot(Duration::from_secs(100) + Duration::from_millis(millis));
        let (id, ttl) = (String::new(), Duration::from_millis(12_500));
        let session = Session { id, ttl, created: at(0), is_kept: AtomicBool::new(false) };
        let lock = Duration::from_secs(10);
        for (now, covers) in [(0, true), (2_250, true), (2_251, false), (60_000, false)] {
            assert_eq!(session.covers(at(now), lock), covers, "{now}");
            assert!(!covers || at(now) + lock <= session.ends());
        }
    }
}
