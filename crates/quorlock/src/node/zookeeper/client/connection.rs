//! One connection to a member, with a session of its own. Nothing that we store depends on the session.

use crate::context::connector::Stream;
use crate::context::mutex::Mutex;
use crate::node::NodeError;
use crate::node::net::stream::Address;
use crate::node::zookeeper::client::call::{Call, CallError};
use crate::node::zookeeper::client::jute::{Read, Write, protocol};
use crate::node::zookeeper::client::operation::{Operation, Refusal};
use crate::node::zookeeper::client::watches::{Watched, Watches};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long the ensemble keeps the session of a client that is silent. It may choose another time.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// The most operations that wait for an answer.
const MAX_PENDING: usize = 16_384;
/// The longest answer that is read.
const MAX_ANSWER: usize = 16 << 20;

/// The numbers of messages that answer no operation.
const EVENT: i32 = -1;
const PING: i32 = -2;
const AUTH: i32 = -4;
/// The operation that presents a user.
const AUTH_OPERATION: i32 = 100;

/// A user and its password.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.user)
    }
}

/// One connection. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Connection {
    shared: Arc<Shared>,
    /// The number of the member in the address.
    pub(crate) member: usize,
    _ending: DropGuard,
}

/// What the users of a connection and its tasks share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    watches: Watches,
    /// Notifies the writer that operations wait.
    arrived: Notify,
    ended: CancellationToken,
    /// The last change that this client has seen.
    zxid: Arc<AtomicI64>,
}

#[derive(Debug, Default)]
struct State {
    outbox: BytesMut,
    /// ZooKeeper answers in order.
    pending: VecDeque<Pending>,
    xid: i32,
    failure: Option<NodeError>,
}

#[derive(Debug)]
struct Pending {
    xid: i32,
    sent: Instant,
    answer: oneshot::Sender<Result<Bytes, CallError>>,
}

impl Connection {
    /// Connects to `member` and begins a session. A member that knows less than `zxid` refuses that, so a
    /// client never sees the past. The caller bounds the time.
    pub(crate) async fn open(
        (member, address): (usize, &Address),
        login: Option<&Login>,
        zxid: &Arc<AtomicI64>,
        limit: Duration,
    ) -> Result<Self, NodeError> {
        let mut stream = address.open(limit).await?;
        let mut read = BytesMut::new();
        let session_timeout = greet(&mut stream, &mut read, login, zxid.load(Ordering::Relaxed)).await?;
        let ended = CancellationToken::new();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            watches: Watches::default(),
            arrived: Notify::new(),
            ended: ended.clone(),
            zxid: zxid.clone(),
        });
        let (reader, writer) = tokio::io::split(stream);
        let (reads, writes) = (shared.clone(), shared.clone());
        tokio::spawn(async move {
            let result = reads.ended.run_until_cancelled(reads.read_all(reader, read, session_timeout)).await;
            reads.fail(result.unwrap_or_else(closed));
        });
        tokio::spawn(async move {
            let result = writes.ended.run_until_cancelled(writes.write_all(writer, session_timeout)).await;
            writes.fail(result.unwrap_or_else(closed));
        });
        Ok(Self { shared, member, _ending: ended.drop_guard() })
    }

    /// Sends `operation` behind all that were sent before.
    pub(crate) fn send(&self, operation: &Operation<'_>) -> Result<Call, CallError> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.shared.state.lock();
        if let Some(failure) = &state.failure {
            return Err(CallError::Unsent(failure.clone()));
        }
        if state.pending.len() >= MAX_PENDING {
            return Err(CallError::Unsent(NodeError::QueueFull { limit: MAX_PENDING }));
        }
        state.xid = state.xid.checked_add(1).unwrap_or(1);
        let xid = state.xid;
        put_message(&mut state.outbox, xid, operation);
        state.pending.push_back(Pending { xid, sent: Instant::now(), answer });
        drop(state);
        self.shared.arrived.notify_one();
        Ok(Call::new(answered, self.shared.clone()))
    }

    /// Receives what changes at `path` and below, once [`Operation::Watch`] was answered.
    pub(crate) fn watched(&self, path: &str) -> Watched {
        self.shared.watches.add(path)
    }

    /// Whether operations can be sent.
    pub(crate) fn is_open(&self) -> bool {
        !self.shared.ended.is_cancelled()
    }

    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) {
        self.shared.ended.cancelled().await;
    }
}

impl Shared {
    /// Ends the connection because of `error`. What was sent may or may not be executed.
    pub(crate) fn fail(&self, error: NodeError) {
        let pending = {
            let mut state = self.state.lock();
            state.failure.get_or_insert_with(|| error.clone());
            std::mem::take(&mut state.pending)
        };
        self.ended.cancel();
        for pending in pending {
            let _ = pending.answer.send(Err(CallError::Unknown(error.clone())));
        }
    }

    /// Ends the connection if its member owes an answer for `reply_timeout`.
    pub(crate) fn end_if_stuck(&self, reply_timeout: Duration) {
        let oldest = self.state.lock().pending.front().map(|pending| pending.sent.elapsed());
        if let Some(after) = oldest.filter(|waited| *waited >= reply_timeout) {
            self.fail(NodeError::Timeout { after });
        }
    }

    async fn write_all(
        &self,
        mut writer: WriteHalf<Box<dyn Stream>>,
        session_timeout: Duration,
    ) -> NodeError {
        loop {
            let out = self.state.lock().outbox.split();
            if out.is_empty() {
                if timeout(session_timeout / 3, self.arrived.notified()).await.is_err() {
                    put_message(&mut self.state.lock().outbox, PING, &Operation::Ping);
                }
                continue;
            }
            let written = async {
                writer.write_all(&out).await?;
                writer.flush().await
            };
            if let Err(error) = written.await {
                return disconnected(error);
            }
        }
    }

    /// Reads until the connection breaks. A healthy member answers pings.
    async fn read_all(
        &self,
        mut reader: ReadHalf<Box<dyn Stream>>,
        mut read: BytesMut,
        session_timeout: Duration,
    ) -> NodeError {
        let silence = session_timeout * 2 / 3;
        loop {
            match timeout(silence, read_message(&mut reader, &mut read)).await {
                Ok(Ok(message)) => {
                    if let Err(error) = self.dispatch(message) {
                        return error;
                    }
                }
                Ok(Err(error)) => return error,
                Err(_) => return NodeError::Timeout { after: silence },
            }
        }
    }

    fn dispatch(&self, mut message: Bytes) -> Result<(), NodeError> {
        let (xid, zxid, code) = (message.int()?, message.long()?, message.int()?);
        match xid {
            EVENT => {
                let (_kind, _state) = (message.int()?, message.int()?);
                self.watches.notify(message.text()?);
            }
            PING | AUTH => {}
            xid => {
                let answered = self.state.lock().pending.pop_front();
                let answered = answered.filter(|pending| pending.xid == xid);
                let pending = answered.ok_or_else(|| protocol("an answer is out of order"))?;
                // Not before: members refuse a client that claims to know more than they do.
                self.zxid.fetch_max(zxid, Ordering::Relaxed);
                let refusal = Refusal(code);
                let answer = match code {
                    0 => Ok(message),
                    _ if refusal.is_definite() => Err(CallError::Refused(refusal)),
                    _ => Err(CallError::Unknown(refusal.cause(""))),
                };
                // Its caller may have given up.
                let _ = pending.answer.send(answer);
                if refusal.ends_session() {
                    return Err(refusal.cause(""));
                }
            }
        }
        Ok(())
    }
}

/// Begins a session. Returns how long the member keeps it without a sign of life.
async fn greet(
    stream: &mut Box<dyn Stream>,
    read: &mut BytesMut,
    login: Option<&Login>,
    zxid: i64,
) -> Result<Duration, NodeError> {
    let mut out = BytesMut::new();
    put_framed(&mut out, |out| {
        out.put_i32(0);
        out.put_i64(zxid);
        out.put_i32(i32::try_from(SESSION_TIMEOUT.as_millis()).unwrap_or(i32::MAX));
        out.put_i64(0);
        out.buffer(&[0; 16]);
        // A member that sees no majority must refuse us.
        out.flag(false);
    });
    if let Some(Login { user, password }) = login {
        put_framed(&mut out, |out| {
            out.put_i32(AUTH);
            out.put_i32(AUTH_OPERATION);
            out.put_i32(0);
            out.text("digest");
            out.text(&format!("{user}:{password}"));
        });
    }
    stream.write_all(&out).await.map_err(disconnected)?;
    stream.flush().await.map_err(disconnected)?;
    let mut answer = read_message(stream, read).await.map_err(refused_greeting)?;
    let (_version, millis) = (answer.int()?, answer.int()?);
    let millis = u64::try_from(millis).ok().filter(|millis| *millis > 0);
    let millis = millis.ok_or_else(|| protocol("the member gave no session"))?;
    if login.is_some() {
        let mut answer = read_message(stream, read).await.map_err(refused_greeting)?;
        let (xid, _zxid, code) = (answer.int()?, answer.long()?, answer.int()?);
        if xid != AUTH || code != 0 {
            return Err(Refusal::AUTH_FAILED.cause(""));
        }
    }
    Ok(Duration::from_millis(millis.clamp(1_000, 600_000)))
}

/// A member ends the connection without a word if it may not serve us.
fn refused_greeting(error: NodeError) -> NodeError {
    match error {
        NodeError::Disconnected { source } if source.kind() == io::ErrorKind::UnexpectedEof => {
            let why = "the member refused the session: it sees no majority of the others, has not caught up, or was \
                       restored from a backup";
            disconnected(io::Error::new(io::ErrorKind::UnexpectedEof, why))
        }
        error => error,
    }
}

fn put_message(out: &mut BytesMut, xid: i32, operation: &Operation<'_>) {
    put_framed(out, |out| {
        out.put_i32(xid);
        out.put_i32(operation.code());
        operation.encode(out);
    });
}

/// Appends what `put` writes, behind its length.
fn put_framed(out: &mut BytesMut, put: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_i32(0);
    put(out);
    let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// The next message; `read` keeps what follows it.
async fn read_message(
    reader: &mut (impl tokio::io::AsyncRead + Unpin),
    read: &mut BytesMut,
) -> Result<Bytes, NodeError> {
    loop {
        if let Some(length) = read.first_chunk().map(|length| i32::from_be_bytes(*length)) {
            let length = usize::try_from(length).ok().filter(|length| *length <= MAX_ANSWER);
            let length = length.ok_or_else(|| protocol("an answer is too long"))?;
            if read.len() >= 4 + length {
                read.advance(4);
                return Ok(read.split_to(length).freeze());
            }
        }
        match reader.read_buf(read).await {
            Ok(0) => return Err(disconnected(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(error) => return Err(disconnected(error)),
        }
    }
}

fn disconnected(error: io::Error) -> NodeError {
    NodeError::Disconnected { source: Arc::new(error) }
}

fn closed() -> NodeError {
    disconnected(io::ErrorKind::ConnectionAborted.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a broken answer does not make us claim to know what no member knows, which all would refuse.
    #[test]
    fn an_answer_out_of_order_is_not_believed() {
        let shared = Shared {
            state: Mutex::default(),
            watches: Watches::default(),
            arrived: Notify::new(),
            ended: CancellationToken::new(),
            zxid: Arc::default(),
        };
        let mut message = BytesMut::new();
        message.put_i32(7);
        message.put_i64(i64::MAX);
        message.put_i32(0);
        assert!(shared.dispatch(message.freeze()).is_err());
        assert_eq!(shared.zxid.load(Ordering::Relaxed), 0);
    }
}
