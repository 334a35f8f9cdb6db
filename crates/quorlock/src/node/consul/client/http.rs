//! Requests to the agents of one cluster, over connections that are used again.

use crate::context::mutex::Mutex;
use crate::node::NodeError;
use crate::node::engine::Failure;
use crate::node::net::stream::Address;
use crate::node::server_text::server_text;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{DATE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::io;
use std::sync::Arc;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

/// The longest answer that is read, in bytes: the keys of a full list fit in.
const LONGEST_ANSWER: usize = 64 << 20;
/// The most connections that are kept without work.
const MAX_IDLE: usize = 64;
/// The most calls that are under way at a time, each on a connection. Together with watches they stay below the
/// 200 connections that an agent takes from one address.
const MAX_CALLS: usize = 64;

/// One agent, as it is reached.
#[derive(Debug)]
pub(crate) struct Agent {
    /// `host:port`.
    pub(crate) authority: String,
    pub(crate) address: Address,
}

/// The connections to a cluster: to the agent that answered last, and to the others one after the other when it
/// does not.
#[derive(Debug)]
pub(crate) struct Http {
    agents: Vec<Agent>,
    /// The agent that is used.
    current: watch::Sender<usize>,
    /// The agents that are known to belong to our cluster. No other is used.
    usable: Mutex<Vec<bool>>,
    idle: Mutex<Vec<Connection>>,
    calls: Semaphore,
    token: Option<HeaderValue>,
    connect_timeout: Duration,
    request_timeout: Duration,
    /// How many calls were made, for tests.
    made: AtomicUsize,
}

#[derive(Debug)]
struct Connection {
    agent: usize,
    sender: SendRequest<Full<Bytes>>,
}

/// One call to the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    /// The path and the query.
    pub(crate) path: &'a str,
    pub(crate) body: Bytes,
}

impl<'a> Call<'a> {
    pub(crate) fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, body: Bytes::new() }
    }

    pub(crate) fn put(path: &'a str, body: impl Into<Bytes>) -> Self {
        Self { method: Method::PUT, path, body: body.into() }
    }
}

/// A whole answer, and the agent that gave it.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    pub(crate) agent: usize,
    headers: HeaderMap,
}

impl Answered {
    /// The position in the history of the cluster that the answer shows; 0 if it shows none.
    pub(crate) fn index(&self) -> u64 {
        let index = self.headers.get("x-consul-index").and_then(|value| value.to_str().ok());
        index.and_then(|index| index.parse().ok()).unwrap_or(0)
    }

    /// What the clock of the agent shows, as HTTP writes it.
    pub(crate) fn date(&self) -> Option<&str> {
        self.headers.get(DATE)?.to_str().ok()
    }
}

impl Http {
    pub(crate) fn new(
        agents: Vec<Agent>,
        token: Option<HeaderValue>,
        connect_timeout: Duration,
        request_timeout: Duration,
    ) -> Self {
        Self {
            usable: Mutex::new(vec![false; agents.len()]),
            agents,
            current: watch::Sender::new(0),
            idle: Mutex::default(),
            calls: Semaphore::new(MAX_CALLS),
            token,
            connect_timeout,
            request_timeout,
            made: AtomicUsize::new(0),
        }
    }

    /// The answer to `call`, whole.
    ///
    /// # Errors
    /// Why there is none, and whether the call can have had an effect.
    pub(crate) async fn call(&self, call: &Call<'_>) -> Result<Answered, Failure> {
        // The semaphore is never closed.
        let _permit = self.calls.acquire().await;
        self.made.fetch_add(1, Ordering::Relaxed);
        let (connection, response) = self.begin(call).await?;
        let agent = connection.agent;
        let (answer, connection) =
            self.in_time(agent, self.request_timeout, whole(connection, response)).await?;
        if let Some(connection) = connection {
            let mut idle = self.idle();
            if idle.len() < MAX_IDLE {
                idle.push(connection);
            }
        }
        Ok(answer)
    }

    /// The answer of the agent `number` to `call`, on a connection of its own, if it comes within `limit`.
    pub(crate) async fn ask_agent(
        &self,
        number: usize,
        call: &Call<'_>,
        limit: Duration,
    ) -> Result<Answered, NodeError> {
        let answer = async {
            let connection = self.connect_to(number).await.map_err(Failure::into_error)?;
            let begun = self.send(connection, call, limit).await;
            let (connection, response) = begun.map_err(|unsent| unsent.cause)?;
            Ok(whole(connection, response).await?.0)
        };
        timeout(limit, answer).await.unwrap_or(Err(NodeError::Timeout { after: limit }))
    }

    /// How many agents the address has.
    pub(crate) fn agents(&self) -> usize {
        self.agents.len()
    }

    /// `host:port` of an agent, by its place in the address.
    pub(crate) fn authority(&self, agent: usize) -> &str {
        &self.agents[agent].authority
    }

    /// Declares whether `agent` belongs to our cluster.
    pub(crate) fn set_usable(&self, agent: usize, is_usable: bool) {
        self.usable.lock()[agent] = is_usable;
    }

    /// The agents that are not known to belong to our cluster.
    pub(crate) fn unknown(&self) -> Vec<usize> {
        let usable = self.usable.lock();
        (0..self.agents.len()).filter(|agent| !usable[*agent]).collect()
    }

    /// Uses another agent from now on, if there is one: `agent` does not answer, or cannot.
    pub(crate) fn leave(&self, agent: usize) {
        let next = self.usable_from(agent + 1).next();
        self.use_agent(agent, next.unwrap_or(agent));
        self.idle().retain(|connection| connection.agent != agent);
    }

    /// The agent that is used, and every change of it.
    pub(crate) fn current_agent(&self) -> watch::Receiver<usize> {
        self.current.subscribe()
    }

    /// How many calls were made.
    #[cfg(test)]
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// All agents that may be used, beginning with `first`.
    fn usable_from(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        let (usable, count) = (self.usable.lock().clone(), self.agents.len());
        (0..count).map(move |further| (first + further) % count).filter(move |agent| usable[*agent])
    }

    fn current(&self) -> usize {
        *self.current.borrow()
    }

    /// Uses `next` instead of `before`, unless another call has switched in the meantime.
    fn use_agent(&self, before: usize, next: usize) {
        self.current.send_if_modified(|current| {
            let changes = *current == before && before != next;
            if changes {
                *current = next;
            }
            changes
        });
    }

    async fn begin(&self, call: &Call<'_>) -> Result<(Connection, Response<Incoming>), Failure> {
        while let Some(connection) = self.take_idle() {
            match self.send(connection, call, self.request_timeout).await {
                Ok(begun) => return Ok(begun),
                // The agent closed it while it was idle.
                Err(unsent) if unsent.is_unsent => {}
                Err(sent) => return Err(Failure::Unknown(sent.cause)),
            }
        }
        let connection = self.connect().await?;
        self.send(connection, call, self.request_timeout).await.map_err(Unsent::into_failure)
    }

    /// Sends `call` and waits for the beginning of its answer.
    async fn send(
        &self,
        mut connection: Connection,
        call: &Call<'_>,
        limit: Duration,
    ) -> Result<(Connection, Response<Incoming>), Unsent> {
        let agent = connection.agent;
        let request = self.request(agent, call).map_err(|cause| Unsent { is_unsent: true, cause })?;
        let answer = async { Ok(connection.sender.try_send_request(request).await) };
        let sent = self.in_time(agent, limit, answer).await;
        match sent.map_err(|cause| Unsent { is_unsent: false, cause })? {
            Ok(response) => Ok((connection, response)),
            Err(mut error) => {
                let is_unsent = error.take_message().is_some();
                if !is_unsent {
                    self.leave(agent);
                }
                Err(Unsent { is_unsent, cause: lost(error.error()) })
            }
        }
    }

    fn request(&self, agent: usize, call: &Call<'_>) -> Result<Request<Full<Bytes>>, NodeError> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(call.path)
            .header(HOST, &self.agents[agent].authority);
        if let Some(token) = &self.token {
            request = request.header("X-Consul-Token", token);
        }
        let bad = |error: hyper::http::Error| NodeError::Protocol { reason: error.to_string().into() };
        request.body(Full::new(call.body.clone())).map_err(bad)
    }

    /// Connects to the current agent, or to the next one that can be reached.
    async fn connect(&self) -> Result<Connection, Failure> {
        let first = self.current();
        let mut cause = NodeError::Abandoned;
        for agent in self.usable_from(first) {
            match timeout(self.connect_timeout, self.connect_to(agent)).await {
                Ok(Ok(connection)) => {
                    self.use_agent(first, agent);
                    return Ok(connection);
                }
                Ok(Err(failure)) => cause = failure.into_error(),
                Err(_) => cause = NodeError::Timeout { after: self.connect_timeout },
            }
        }
        Err(Failure::Unsent(cause))
    }

    async fn connect_to(&self, agent: usize) -> Result<Connection, Failure> {
        let opened = self.agents[agent].address.open(self.connect_timeout).await;
        let stream = opened.map_err(Failure::Unsent)?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| Failure::Unsent(lost(&error)))?;
        // It ends with its sender, or with the agent; the next use of it then fails.
        tokio::spawn(connection);
        Ok(Connection { agent, sender })
    }

    async fn in_time<T>(
        &self,
        agent: usize,
        limit: Duration,
        answer: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, NodeError> {
        timeout(limit, answer).await.unwrap_or_else(|_| {
            self.leave(agent);
            Err(NodeError::Timeout { after: limit })
        })
    }

    fn take_idle(&self) -> Option<Connection> {
        let current = self.current();
        let mut idle = self.idle();
        idle.retain(|connection| connection.agent == current && !connection.sender.is_closed());
        idle.pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock()
    }
}

/// Reads the answer to its end, and gives the connection back if it can be used again.
async fn whole(
    mut connection: Connection,
    response: Response<Incoming>,
) -> Result<(Answered, Option<Connection>), NodeError> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, LONGEST_ANSWER).collect().await.map_err(|error| lost(&*error))?.to_bytes();
    let agent = connection.agent;
    // Not ready before the answer was read to its end.
    let is_open = connection.sender.ready().await.is_ok();
    Ok((Answered { status: head.status, body, agent, headers: head.headers }, is_open.then_some(connection)))
}

/// A call that failed before its answer began.
struct Unsent {
    /// Whether nothing of it was sent.
    is_unsent: bool,
    cause: NodeError,
}

impl Unsent {
    fn into_failure(self) -> Failure {
        if self.is_unsent { Failure::Unsent(self.cause) } else { Failure::Unknown(self.cause) }
    }
}

/// The connection broke.
fn lost(error: &(dyn std::error::Error + 'static)) -> NodeError {
    // The library's own message says little; its source says more.
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    NodeError::Disconnected { source: Arc::new(io::Error::other(server_text(cause.to_string()))) }
}
