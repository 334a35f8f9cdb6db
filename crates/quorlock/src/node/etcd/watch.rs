//! Hints: the deletion of a key that holds a name, by its holder or by the end of its lease, notifies the
//! waiter for the name. One stream of messages serves all names.

use crate::node::NodeError;
use crate::node::engine::Hints;
use crate::node::etcd::client::api::Api;
use crate::node::etcd::client::channel::Messages;
use crate::node::etcd::client::errors::protocol;
use crate::node::etcd::client::members::Connection;
use crate::node::etcd::client::messages::{
    WatchCancel, WatchCreate, WatchFilter, WatchOrder, WatchProgress, WatchRequest, WatchResponse,
};
use crate::node::etcd::client::txn::KeyRange;
use crate::node::etcd::lock_store::Store;
use crate::node::server_text::server_text;
use quorlock_core::Name;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, interval, timeout};

/// How often the member is asked for a sign of life.
const SIGN_OF_LIFE: Duration = Duration::from_secs(20);
/// A stream on which nothing came for this long is ended: its member may be cut off.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// The stream that reports what happens to names, while a name is watched.
#[derive(Debug, Default)]
pub(crate) struct Watches(Mutex<Option<Stream>>);

/// What is asked of the task that reads the stream.
#[derive(Debug)]
struct Stream {
    orders: UnboundedSender<Order>,
    /// The number of the next watch.
    next: i64,
}

/// The core bounds how many names are watched at a time.
#[derive(Debug)]
enum Order {
    Begin { first: i64, ranges: [KeyRange; 2], since: u64, progress: Arc<watch::Sender<Progress>> },
    End { first: i64 },
}

/// What is known of the watch of one name.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// How many of its ranges are watched.
    begun: usize,
    /// How many reports of deletions came.
    deletions: u64,
    /// Why nothing more is reported.
    error: Option<NodeError>,
}

/// The watch of one name, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    first: i64,
    orders: UnboundedSender<Order>,
    progress: watch::Receiver<Progress>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::End { first: self.first });
    }
}

impl Watch {
    /// Watches `name`. What happens after the revision `since` is reported, or what happens after this
    /// returned if that is 0.
    pub(crate) async fn begin(store: &Store, name: &Name, since: u64) -> Result<Self, NodeError> {
        let (limit, ranges) = (store.limits.request, store.keys(name).watched());
        let count = ranges.len();
        let begun = async {
            let mut watch = store.watches.begin(&store.api, ranges, since).await?;
            let progress = watch.progress.wait_for(|now| now.begun == count || now.error.is_some()).await;
            let progress = progress.map_err(|_| NodeError::Abandoned)?;
            match &progress.error {
                Some(error) => Err(error.clone()),
                None => {
                    drop(progress);
                    Ok(watch)
                }
            }
        };
        let begun = timeout(limit, begun).await;
        match &begun {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => store.api.renew_auth_token().await,
            Err(_) => store.watches.leave(&store.api).await,
        }
        begun.unwrap_or(Err(NodeError::Timeout { after: limit }))
    }

    /// Notifies `hints` of every deletion, until this watch reports nothing more.
    async fn listen(mut self, hints: &Hints) {
        let mut seen = 0;
        loop {
            let now = self.progress.borrow_and_update().clone();
            if now.deletions != seen {
                seen = now.deletions;
                hints.notify();
            }
            if now.error.is_some() || self.progress.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Watches {
    async fn begin(&self, api: &Arc<Api>, ranges: [KeyRange; 2], since: u64) -> Result<Watch, NodeError> {
        let mut stream = self.0.lock().await;
        stream.take_if(|stream| stream.orders.is_closed());
        let stream = match &mut *stream {
            Some(stream) => stream,
            none => {
                let (messages, connection) = api.open_watch().await?;
                let (orders, incoming) = unbounded_channel();
                tokio::spawn(read_stream(api.clone(), messages, connection, incoming));
                none.insert(Stream { orders, next: 1 })
            }
        };
        let first = stream.next;
        stream.next += ranges.len() as i64;
        let (progress, receiver) = watch::channel(Progress::default());
        let watch = Watch { first, orders: stream.orders.clone(), progress: receiver };
        let begin = Order::Begin { first, ranges, since, progress: Arc::new(progress) };
        stream.orders.send(begin).map_err(|_| NodeError::Abandoned)?;
        Ok(watch)
    }

    /// Ends the stream, and uses another member from now on: the current one keeps a watch waiting.
    async fn leave(&self, api: &Api) {
        *self.0.lock().await = None;
        if let Ok(connection) = api.members.connection().await {
            api.members.leave(&connection);
        }
    }
}

/// Notifies `hints` whenever a holder of `name` or of one of its slots was deleted, until that breaks off or
/// its member may be cut off.
pub(crate) async fn follow(store: &Store, name: &Name, since: u64, mut hints: Hints) {
    if let Ok(watch) = Watch::begin(store, name, since).await {
        hints.begin();
        watch.listen(&hints).await;
    }
}

/// The task that reads the stream, until no name is watched or the stream breaks.
async fn read_stream(
    api: Arc<Api>,
    messages: Messages,
    connection: Connection,
    orders: UnboundedReceiver<Order>,
) {
    let mut reader = Reader { api, messages, connection, watched: BTreeMap::new() };
    let Err(error) = reader.run(orders).await else { return };
    for progress in reader.watched.values() {
        progress.send_modify(|progress| progress.error = Some(error.clone()));
    }
}

struct Reader {
    api: Arc<Api>,
    messages: Messages,
    connection: Connection,
    /// By the number of each watch.
    watched: BTreeMap<i64, Arc<watch::Sender<Progress>>>,
}

impl Reader {
    async fn run(&mut self, mut orders: UnboundedReceiver<Order>) -> Result<(), NodeError> {
        let mut member_changes = self.api.members.member_changes();
        let endpoint = self.connection.endpoint;
        let before = member_changes.borrow_and_update()[endpoint];
        let (mut ticks, mut last) = (interval(SIGN_OF_LIFE), Instant::now());
        ticks.reset();
        loop {
            tokio::select! {
                biased;
                message = self.messages.next::<WatchResponse>() => {
                    last = Instant::now();
                    self.accept(message?)?;
                }
                order = orders.recv() => match order {
                    Some(order) => self.obey(order)?,
                    None => return Ok(()),
                },
                _ = ticks.tick() => {
                    if self.watched.is_empty() {
                        return Ok(());
                    }
                    if last.elapsed() >= LONGEST_SILENCE {
                        self.api.members.leave(&self.connection);
                        return Err(NodeError::Timeout { after: LONGEST_SILENCE });
                    }
                    self.send(WatchOrder::Progress(WatchProgress {}))?;
                }
                // The member that is watched does not answer other calls.
                Ok(()) = member_changes.changed() => {
                    if member_changes.borrow_and_update()[endpoint] != before {
                        return Err(protocol("the watch has ended"));
                    }
                }
            }
        }
    }

    fn obey(&mut self, order: Order) -> Result<(), NodeError> {
        match order {
            Order::Begin { first, ranges, since, progress } => {
                let since = i64::try_from(since).unwrap_or(i64::MAX);
                for (number, KeyRange { from, end }) in (first..).zip(ranges) {
                    self.watched.insert(number, progress.clone());
                    self.send(WatchOrder::Create(WatchCreate {
                        key: from,
                        range_end: end,
                        start_revision: if since == 0 { 0 } else { since.saturating_add(1) },
                        filters: vec![WatchFilter::NoPut as i32],
                        watch_id: number,
                    }))?;
                }
            }
            Order::End { first } => {
                for watch_id in [first, first + 1] {
                    if self.watched.remove(&watch_id).is_some() {
                        self.send(WatchOrder::Cancel(WatchCancel { watch_id }))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn accept(&self, message: WatchResponse) -> Result<(), NodeError> {
        self.api.accept(message.header.unwrap_or_default(), self.connection.endpoint, 0)?;
        let watch = self.watched.get(&message.watch_id);
        if message.canceled {
            let error = protocol(format!("the watch was ended: {}", server_text(&message.cancel_reason)));
            return match watch {
                // One that begins too far back; the others go on.
                Some(watch) => {
                    watch.send_modify(|progress| progress.error = Some(error));
                    Ok(())
                }
                // We ended it, unless the member does not say which one it refuses.
                None if message.watch_id >= 0 => Ok(()),
                None => Err(error),
            };
        }
        if let Some(watch) = watch
            && (message.created || !message.events.is_empty())
        {
            watch.send_modify(|progress| {
                progress.begun += usize::from(message.created);
                progress.deletions += u64::from(!message.events.is_empty());
            });
        }
        Ok(())
    }

    fn send(&mut self, order: WatchOrder) -> Result<(), NodeError> {
        self.messages.send(&WatchRequest { order: Some(order) })
    }
}
