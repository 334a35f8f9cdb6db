//! Requests to the endpoints of one cluster, over connections that are used again.

use crate::context::mutex::Mutex;
use crate::node::NodeError;
use crate::node::etcd::client::cluster::Member;
use crate::node::net::stream::Address;
use crate::node::server_text::server_text;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

/// The longest answer that is read, in bytes: the names of a full list fit in.
const LONGEST_ANSWER: usize = 64 << 20;
/// The most connections that are kept without work.
const MAX_IDLE: usize = 32;

/// The most calls that are under way at a time, each on a connection.
const MAX_CALLS: usize = 64;

/// One member of the cluster, as it is reached.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// `host:port`.
    pub(crate) authority: String,
    pub(crate) address: Address,
}

/// The connections to a cluster: to the member that answered last, and to the others one after the other
/// when it does not.
#[derive(Debug)]
pub(crate) struct Http {
    endpoints: Vec<Endpoint>,
    /// The member that is used.
    current: AtomicUsize,
    idle: Mutex<Vec<Connection>>,
    calls: Semaphore,
    /// How often each member was left for another, for the watches on it.
    member_changes: watch::Sender<Vec<u64>>,
    connect_timeout: Duration,
    request_timeout: Duration,
}

#[derive(Debug)]
struct Connection {
    endpoint: usize,
    sender: SendRequest<Full<Bytes>>,
}

/// One call to the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) path: &'a str,
    pub(crate) body: Bytes,
    /// The cluster's token for our user and password.
    pub(crate) auth_token: Option<Arc<str>>,
}

/// A whole answer, and the member that gave it.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    pub(crate) endpoint: usize,
}

/// The beginning of an answer that goes on.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) status: StatusCode,
    pub(crate) body: Incoming,
    pub(crate) endpoint: usize,
}

impl Http {
    pub(crate) fn new(
        endpoints: Vec<Endpoint>,
        connect_timeout: Duration,
        request_timeout: Duration,
    ) -> Self {
        let (current, idle, calls) = (AtomicUsize::new(0), Mutex::default(), Semaphore::new(MAX_CALLS));
        let member_changes = watch::Sender::new(vec![0; endpoints.len()]);
        Self { endpoints, current, idle, calls, member_changes, connect_timeout, request_timeout }
    }

    /// The answer to `call`, whole.
    ///
    /// # Errors
    /// Why there is none. Whether the call was carried out is unknown then.
    pub(crate) async fn call(&self, call: &Call<'_>) -> Result<Answered, NodeError> {
        // The semaphore is never closed.
        let _permit = self.calls.acquire().await;
        let (mut connection, response) = self.begin(call).await?;
        let endpoint = connection.endpoint;
        let (head, body) = response.into_parts();
        let whole = async {
            let body = Limited::new(body, LONGEST_ANSWER).collect().await.map_err(|error| lost(&*error))?;
            // Not ready before the answer was read to its end.
            let is_open = connection.sender.ready().await.is_ok();
            Ok::<_, NodeError>((body.to_bytes(), is_open))
        };
        let (body, is_open) = self.in_time(endpoint, whole).await?;
        if is_open {
            let mut idle = self.idle();
            if idle.len() < MAX_IDLE {
                idle.push(connection);
            }
        }
        Ok(Answered { status: head.status, body, endpoint })
    }

    /// The beginning of an answer that goes on, on a connection of its own.
    pub(crate) async fn open(&self, call: &Call<'_>) -> Result<Opened, NodeError> {
        let connection = self.connect().await?;
        let endpoint = connection.endpoint;
        let (_, response) = self.send(connection, call).await.map_err(|unsent| unsent.cause)?;
        Ok(Opened { status: response.status(), body: response.into_body(), endpoint })
    }

    /// The answer of the member `number` to `call`, if it is a success and comes within `limit`. Else
    /// that member is not used any more until others fail.
    pub(crate) async fn ask_member(&self, number: usize, call: &Call<'_>, limit: Duration) -> Option<Bytes> {
        let answer = async {
            let mut sender = self.connect_to(number).await.ok()?.sender;
            let response = sender.send_request(self.request(number, call).ok()?).await.ok()?;
            let is_success = response.status() == StatusCode::OK;
            let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await.ok()?;
            is_success.then(|| body.to_bytes())
        };
        let answer = timeout(limit.min(self.request_timeout), answer).await.ok().flatten();
        if answer.is_none() {
            self.leave_member(number);
        }
        answer
    }

    /// How many members the address has.
    pub(crate) fn members(&self) -> usize {
        self.endpoints.len()
    }

    /// A member, by its place in the address.
    pub(crate) fn member(&self, number: usize) -> Member<'_> {
        Member { number, authority: &self.endpoints[number].authority }
    }

    /// Uses another member from now on, if there is one: `endpoint` does not answer, or cannot.
    pub(crate) fn leave_member(&self, endpoint: usize) {
        self.use_member(endpoint, (endpoint + 1) % self.endpoints.len());
        self.idle().retain(|connection| connection.endpoint != endpoint);
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

    /// The member that is used.
    pub(crate) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    async fn begin(&self, call: &Call<'_>) -> Result<(Connection, Response<Incoming>), NodeError> {
        while let Some(connection) = self.take_idle() {
            match self.send(connection, call).await {
                Ok(begun) => return Ok(begun),
                // The server closed it while it was idle.
                Err(unsent) if unsent.is_unsent => {}
                Err(sent) => return Err(sent.cause),
            }
        }
        let connection = self.connect().await?;
        self.send(connection, call).await.map_err(|unsent| unsent.cause)
    }

    /// Sends `call` and waits for the beginning of its answer.
    async fn send(
        &self,
        mut connection: Connection,
        call: &Call<'_>,
    ) -> Result<(Connection, Response<Incoming>), Unsent> {
        let endpoint = connection.endpoint;
        let request = self.request(endpoint, call).map_err(Unsent::no)?;
        let answer = async { Ok(connection.sender.try_send_request(request).await) };
        match self.in_time(endpoint, answer).await.map_err(Unsent::no)? {
            Ok(response) => Ok((connection, response)),
            Err(mut error) => {
                let is_unsent = error.take_message().is_some();
                if !is_unsent {
                    self.leave_member(endpoint);
                }
                Err(Unsent { is_unsent, cause: lost(error.error()) })
            }
        }
    }

    fn request(&self, endpoint: usize, call: &Call<'_>) -> Result<Request<Full<Bytes>>, NodeError> {
        let request = Request::post(call.path)
            .header(HOST, &self.endpoints[endpoint].authority)
            .header(CONTENT_TYPE, "application/json");
        // A member that sees no leader reports that, instead of keeping a watch open that reports
        // nothing.
        let request = request.header("Grpc-Metadata-hasleader", "true");
        let request = match &call.auth_token {
            Some(auth_token) => request.header(AUTHORIZATION, &**auth_token),
            None => request,
        };
        let bad = |error: hyper::http::Error| NodeError::Protocol { reason: error.to_string().into() };
        request.body(Full::new(call.body.clone())).map_err(bad)
    }

    /// Connects to the current member, or to the next one that can be reached.
    async fn connect(&self) -> Result<Connection, NodeError> {
        let first = self.current();
        let mut cause = NodeError::Abandoned;
        for endpoint in (0..self.endpoints.len()).map(|further| (first + further) % self.endpoints.len()) {
            match timeout(self.connect_timeout, self.connect_to(endpoint)).await {
                Ok(Ok(connection)) => {
                    self.use_member(first, endpoint);
                    return Ok(connection);
                }
                Ok(Err(error)) => cause = error,
                Err(_) => cause = NodeError::Timeout { after: self.connect_timeout },
            }
        }
        Err(cause)
    }

    async fn connect_to(&self, endpoint: usize) -> Result<Connection, NodeError> {
        let stream = self.endpoints[endpoint].address.open(self.connect_timeout).await?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| lost(&error))?;
        // It ends with its sender, or with the server; the next use of it then fails.
        tokio::spawn(connection);
        Ok(Connection { endpoint, sender })
    }

    async fn in_time<T>(
        &self,
        endpoint: usize,
        answer: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, NodeError> {
        timeout(self.request_timeout, answer).await.unwrap_or_else(|_| {
            self.leave_member(endpoint);
            Err(NodeError::Timeout { after: self.request_timeout })
        })
    }

    fn take_idle(&self) -> Option<Connection> {
        let current = self.current();
        let mut idle = self.idle();
        idle.retain(|connection| connection.endpoint == current && !connection.sender.is_closed());
        idle.pop()
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock()
    }
}

/// A call that failed before its answer began.
struct Unsent {
    /// Whether nothing of it was sent.
    is_unsent: bool,
    cause: NodeError,
}

impl Unsent {
    fn no(cause: NodeError) -> Self {
        Self { is_unsent: false, cause }
    }
}

/// The connection broke.
pub(crate) fn lost(error: &(dyn std::error::Error + 'static)) -> NodeError {
    // The library's own message says little; its source says more.
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    NodeError::Disconnected { source: Arc::new(io::Error::other(server_text(cause.to_string()))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;

    fn http(members: usize) -> Http {
        let address = Address::Tcp {
            connector: Context::default().connector,
            host: "a".to_owned(),
            port: 1,
            tls: None,
        };
        let member = |_| Endpoint { authority: "a:1".to_owned(), address: address.clone() };
        Http::new((0..members).map(member).collect(), Duration::from_secs(1), Duration::from_secs(1))
    }

    /// Each switch begins all watches of that member again.
    #[test]
    fn a_member_is_left_once_however_many_calls_failed_and_not_without_another() {
        let alone = http(1);
        alone.leave_member(0);
        assert_eq!((alone.current(), &*alone.member_changes().borrow()), (0, &vec![0]));
        let three = http(3);
        (0..9).for_each(|_| three.leave_member(0));
        assert_eq!((three.current(), &*three.member_changes().borrow()), (1, &vec![1, 0, 0]));
    }
}
