//! Which member of a cluster is used, and the connection to it.

use crate::context::mutex::Mutex;
use crate::node::NodeError;
use crate::node::etcd::client::channel::Channel;
use crate::node::etcd::client::cluster::Member;
use crate::node::net::stream::Address;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::{Instant, timeout};

/// One member of the cluster, as it is reached.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// `host:port`.
    pub(crate) authority: String,
    pub(crate) address: Address,
}

/// The members in the address: the one that answered last is used, and the others one after the other when it
/// does not answer.
#[derive(Debug)]
pub(crate) struct Members {
    endpoints: Vec<Endpoint>,
    /// The member that is used.
    current: AtomicUsize,
    connection: Mutex<Option<Connection>>,
    /// Locked while a connection is opened, so that one is. The last failure, and when it was.
    connecting: AsyncMutex<Option<(Instant, NodeError)>>,
    /// How often each member was left for another, for the watches on it.
    member_changes: watch::Sender<Vec<u64>>,
    connect_timeout: Duration,
}

/// A connection to one member.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The member, by its place in the address.
    pub(crate) endpoint: usize,
    pub(crate) channel: Channel,
}

impl Members {
    pub(crate) fn new(endpoints: Vec<Endpoint>, connect_timeout: Duration) -> Self {
        let member_changes = watch::Sender::new(vec![0; endpoints.len()]);
        let (current, connection, connecting) = Default::default();
        Self { endpoints, current, connection, connecting, member_changes, connect_timeout }
    }

    /// How many members the address has.
    pub(crate) fn count(&self) -> usize {
        self.endpoints.len()
    }

    /// A member, by its place in the address.
    pub(crate) fn member(&self, number: usize) -> Member<'_> {
        Member { number, authority: &self.endpoints[number].authority }
    }

    /// The connection to the current member, or to the next one that can be reached.
    pub(crate) async fn connection(&self) -> Result<Connection, NodeError> {
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        let asked = Instant::now();
        let mut last_failure = self.connecting.lock().await;
        // Another call has tried in the meantime.
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        if let Some((_, error)) = last_failure.as_ref().filter(|(when, _)| *when >= asked) {
            return Err(error.clone());
        }
        let opened = self.connect().await;
        match &opened {
            Ok(opened) => *self.connection.lock() = Some(opened.clone()),
            Err(error) => *last_failure = Some((Instant::now(), error.clone())),
        }
        opened
    }

    /// A connection of its own to the member `number`.
    pub(crate) async fn connect_to(&self, number: usize) -> Result<Channel, NodeError> {
        let Endpoint { authority, address } = &self.endpoints[number];
        Channel::open(address, authority, self.connect_timeout).await
    }

    /// Does not use `connection` any more, and another member from now on, if there is one: its member does
    /// not answer, or cannot.
    pub(crate) fn leave(&self, connection: &Connection) {
        let mut current = self.connection.lock();
        current.take_if(|current| current.channel.is(&connection.channel));
        drop(current);
        self.leave_member(connection.endpoint);
    }

    /// Uses another member from now on, if there is one.
    pub(crate) fn leave_member(&self, number: usize) {
        self.use_member(number, (number + 1) % self.endpoints.len());
    }

    /// How often each member was left for another: a watch on it may wait without end.
    pub(crate) fn member_changes(&self) -> watch::Receiver<Vec<u64>> {
        self.member_changes.subscribe()
    }

    /// Uses `next` instead of `before`, unless another call has switched in the meantime.
    fn use_member(&self, before: usize, next: usize) {
        let changed = self.current.compare_exchange(before, next, Ordering::Relaxed, Ordering::Relaxed);
        if before != next && changed.is_ok() {
            self.member_changes.send_modify(|member_changes| member_changes[before] += 1);
        }
    }

    fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    fn open_connection(&self) -> Option<Connection> {
        let current = self.current();
        let mut open = self.connection.lock();
        open.take_if(|open| open.endpoint != current || open.channel.is_closed());
        open.clone()
    }

    async fn connect(&self) -> Result<Connection, NodeError> {
        let first = self.current();
        let mut cause = NodeError::Abandoned;
        for endpoint in (0..self.count()).map(|further| (first + further) % self.count()) {
            match timeout(self.connect_timeout, self.connect_to(endpoint)).await {
                Ok(Ok(channel)) => {
                    self.use_member(first, endpoint);
                    return Ok(Connection { endpoint, channel });
                }
                Ok(Err(error)) => cause = error,
                Err(_) => cause = NodeError::Timeout { after: self.connect_timeout },
            }
        }
        Err(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;

    fn members(count: usize) -> Members {
        let address = Address::Tcp {
            connector: Context::default().connector,
            host: "a".to_owned(),
            port: 1,
            tls: None,
        };
        let member = |_| Endpoint { authority: "a:1".to_owned(), address: address.clone() };
        Members::new((0..count).map(member).collect(), Duration::from_secs(1))
    }

    /// Each switch begins all watches of that member again.
    #[test]
    fn a_member_is_left_once_however_many_calls_failed_and_not_without_another() {
        let alone = members(1);
        alone.leave_member(0);
        assert_eq!((alone.current(), &*alone.member_changes().borrow()), (0, &vec![0]));
        let three = members(3);
        (0..9).for_each(|_| three.leave_member(0));
        assert_eq!((three.current(), &*three.member_changes().borrow()), (1, &vec![1, 0, 0]));
    }
}
