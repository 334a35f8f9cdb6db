//! Hints: a session that listens while a client waits. Behind a pooler there is none, and waiters poll.

use crate::context::mutex::Mutex;
use crate::node::NodeError;
use crate::node::engine::Hints;
use crate::node::postgres::Postgres;
use crate::node::postgres::pool::Pool;
use crate::node::postgres::statement::identifier;
use quorlock_core::Name;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};
use tokio::time::{Instant, interval_at, sleep};

/// For how long the database sends hints to a client that has announced itself.
const ANNOUNCED: Duration = Duration::from_secs(30);
/// After this time it announces itself again.
const ANNOUNCE_AGAIN: Duration = Duration::from_secs(10);

/// Who is to be woken, and the session that listens for them.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    waiting: Arc<Mutex<BTreeMap<String, Arc<Notify>>>>,
    session: AsyncMutex<Option<watch::Receiver<Listening>>>,
}

/// What became of the session that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listening {
    Yes,
    /// There is a pooler in between.
    Never,
    Over,
}

/// A name that is waited for, until it is dropped.
struct Waiting {
    waiting: Arc<Mutex<BTreeMap<String, Arc<Notify>>>>,
    name: String,
    notify: Arc<Notify>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        if waiting.get(&self.name).is_some_and(|notify| Arc::ptr_eq(notify, &self.notify)) {
            waiting.remove(&self.name);
        }
    }
}

impl Postgres {
    /// Notifies `hints` when a notification names `name`, until the session ends.
    pub(crate) async fn listen(&self, name: &Name, hints: &mut Hints) -> Result<(), NodeError> {
        let notify = Arc::new(Notify::new());
        let waiting = self.listener.waiting.clone();
        waiting.lock().insert(name.as_str().to_owned(), notify.clone());
        let _waiting = Waiting { waiting, name: name.as_str().to_owned(), notify: notify.clone() };
        let mut session = self.listener.session(&self.pool).await?;
        if *session.borrow() == Listening::Never {
            hints.begin();
            std::future::pending::<()>().await;
        }
        self.announce(name).await?;
        hints.begin();
        let mut again = interval_at(Instant::now() + ANNOUNCE_AGAIN, ANNOUNCE_AGAIN);
        loop {
            tokio::select! {
                () = notify.notified() => hints.notify(),
                _ = again.tick() => self.announce(name).await?,
                () = over(&mut session) => return Ok(()),
            }
        }
    }

    /// Announces that hints for `name` are wanted.
    async fn announce(&self, name: &Name) -> Result<(), NodeError> {
        let for_ms = i64::try_from(ANNOUNCED.as_millis()).unwrap_or(i64::MAX);
        let write = |echo, _| self.pool.call("await").text(name.as_str()).number(for_ms).select(echo);
        self.pool.ask_number(write).await.map(drop).map_err(|failure| failure.into_error())
    }
}

/// Waits until the session that listens has ended.
async fn over(session: &mut watch::Receiver<Listening>) {
    let _ = session.wait_for(|session| *session == Listening::Over).await;
}

impl Listener {
    /// The session that listens, opened if there is none.
    async fn session(&self, pool: &Pool) -> Result<watch::Receiver<Listening>, NodeError> {
        let mut session = self.session.lock().await;
        if let Some(known) = session.as_ref().filter(|known| *known.borrow() != Listening::Over) {
            return Ok(known.clone());
        }
        let (payloads, mut received) = unbounded_channel();
        let mut connection = pool.connector.connect(Some(payloads)).await?;
        if !connection.greeting.is_direct {
            let (_, never) = watch::channel(Listening::Never);
            *session = Some(never.clone());
            return Ok(never);
        }
        let listen = format!("LISTEN {}", identifier(&pool.schema));
        connection.query(&listen).await.map_err(|error| super::errors::cause(&error, &pool.schema))?;
        let (state, begun) = watch::channel(Listening::Yes);
        let waiting = self.waiting.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    biased;
                    Some(topic) = received.recv() => {
                        if let Some(notify) = waiting.lock().get(&topic) {
                            notify.notify_one();
                        }
                    }
                    () = connection.closed() => break,
                    // It ends when no name has been waited for during this time.
                    () = sleep(ANNOUNCED) => if waiting.lock().is_empty() { break },
                }
            }
            state.send_replace(Listening::Over);
        });
        *session = Some(begun.clone());
        Ok(begun)
    }
}
