//! A small client for ZooKeeper's own protocol: it keeps one connection to some member of the ensemble.

pub(crate) mod call;
pub(crate) mod connection;
pub(crate) mod jute;
pub(crate) mod operation;
pub(crate) mod watches;

use crate::context::mutex::Mutex;
use crate::node::NodeError;
use crate::node::engine::Limits;
use crate::node::net::stream::Address;
use crate::node::zookeeper::paths::Paths;
use bytes::Bytes;
use call::CallError;
use connection::{Connection, Login};
use jute::{Read, Stat};
use operation::{Operation, Refusal};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

/// How long after all members refused a connection the next attempt is made: at first, and at most after further
/// ones.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(800));
/// A session costs the ensemble two writes, so a member that is slow is not left too soon.
const MIN_REPLY_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest answer to a four-letter word that is read.
const MAX_WORD_ANSWER: u64 = 64 << 10;

/// A member of the ensemble.
#[derive(Debug)]
pub(crate) struct Member {
    /// As `host:port`.
    pub(crate) authority: String,
    pub(crate) address: Address,
}

/// The client of one ensemble. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Client(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    members: Vec<Member>,
    login: Option<Login>,
    paths: Arc<Paths>,
    limits: Limits,
    connect_timeout: Duration,
    open: Mutex<Option<Arc<Connection>>>,
    /// Why all members refused last. Locked while a connection is being opened.
    refused: tokio::sync::Mutex<Option<Refused>>,
    /// The member to try next.
    next: AtomicUsize,
    /// The last change that was seen.
    zxid: Arc<AtomicI64>,
    /// What identifies the ensemble that answered first.
    identity: Mutex<Option<u64>>,
}

/// An attempt to connect that failed.
#[derive(Debug)]
struct Refused {
    at: Instant,
    /// How long until the next one.
    delay: Duration,
    error: NodeError,
}

impl Client {
    /// The client of `members`, which tries the one with the number `first` first. Connects to none yet.
    pub(crate) fn new(
        members: Vec<Member>,
        first: usize,
        login: Option<Login>,
        paths: Arc<Paths>,
        limits: Limits,
        connect_timeout: Duration,
    ) -> Self {
        Self(Arc::new(Shared {
            members,
            login,
            paths,
            limits,
            connect_timeout,
            open: Mutex::default(),
            refused: tokio::sync::Mutex::default(),
            next: AtomicUsize::new(first),
            zxid: Arc::default(),
            identity: Mutex::default(),
        }))
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.0.members
    }

    /// Whether clients present a user, so that znodes belong to it.
    pub(crate) fn has_login(&self) -> bool {
        self.0.login.is_some()
    }

    /// The last change that this client has seen; 0 if none.
    pub(crate) fn last_change(&self) -> i64 {
        self.0.zxid.load(Ordering::Relaxed)
    }

    /// When an operation that begins now must be over.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.0.limits.request
    }

    /// The connection, opened if there is none.
    pub(crate) async fn connection(&self, deadline: Instant) -> Result<Arc<Connection>, NodeError> {
        if let Some(open) = self.0.open_connection() {
            return Ok(open);
        }
        // It goes on if this call is given up: a short limit must not keep a slow member from ever answering.
        let shared = self.0.clone();
        let connecting = tokio::spawn(async move { shared.connect().await });
        match timeout_at(deadline, connecting).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(_)) => Err(NodeError::Abandoned),
            Err(_) => Err(NodeError::Timeout { after: self.0.limits.request }),
        }
    }

    /// Executes one operation.
    pub(crate) async fn call(
        &self,
        operation: &Operation<'_>,
        deadline: Instant,
    ) -> Result<Bytes, CallError> {
        let connection = self.connection(deadline).await.map_err(CallError::Unsent)?;
        connection.send(operation)?.answer(deadline, self.0.reply_timeout()).await
    }

    /// The data of `path` as the leader knows it now; `None` if there is no such znode.
    pub(crate) async fn read(
        &self,
        path: &str,
        deadline: Instant,
    ) -> Result<Option<(Bytes, Stat)>, CallError> {
        let connection = self.connection(deadline).await.map_err(CallError::Unsent)?;
        let sync = connection.send(&Operation::Sync(path))?;
        let read = connection.send(&Operation::Read(path))?;
        match sync.answer(deadline, self.0.reply_timeout()).await {
            Ok(_) | Err(CallError::Refused(Refusal::NO_NODE)) => {}
            Err(error) => return Err(error),
        }
        data_of(read.answer(deadline, self.0.reply_timeout()).await)
    }

    /// The data of each of `paths` as this member knows it, asked at once.
    pub(crate) async fn read_all(
        &self,
        paths: &[String],
        deadline: Instant,
    ) -> Result<Vec<Option<(Bytes, Stat)>>, CallError> {
        let connection = self.connection(deadline).await.map_err(CallError::Unsent)?;
        let reads: Result<Vec<_>, _> =
            paths.iter().map(|path| connection.send(&Operation::Read(path))).collect();
        let mut found = Vec::with_capacity(paths.len());
        for read in reads? {
            found.push(data_of(read.answer(deadline, self.0.reply_timeout()).await)?);
        }
        Ok(found)
    }

    /// Replaces the data of `path` if it has `version`; any if that is -1.
    pub(crate) async fn write(
        &self,
        path: &str,
        data: &[u8],
        version: i32,
        deadline: Instant,
    ) -> Result<Stat, CallError> {
        let mut answer = self.call(&Operation::Write { path, data, version }, deadline).await?;
        Stat::read(&mut answer).map_err(CallError::Unknown)
    }

    /// Executes all of `operations` or none. The last one is a write, whose stat is returned, or a deletion.
    pub(crate) async fn all(
        &self,
        operations: &[Operation<'_>],
        deadline: Instant,
    ) -> Result<Stat, CallError> {
        let mut answer = self.call(&Operation::All(operations), deadline).await?;
        let mut stat = Stat::default();
        let mut refusal = Refusal(0);
        for operation in operations {
            let (code, _is_last, _error) = (
                answer.int().map_err(CallError::Unknown)?,
                answer.flag().map_err(CallError::Unknown)?,
                answer.int().map_err(CallError::Unknown)?,
            );
            match (code, operation) {
                // Those before the one that was refused have 0 here, and those behind it have this.
                (-1, _) => match Refusal(answer.int().map_err(CallError::Unknown)?) {
                    Refusal(0) | Refusal::INCONSISTENT => {}
                    found => refusal = found,
                },
                (_, Operation::Write { .. }) => stat = Stat::read(&mut answer).map_err(CallError::Unknown)?,
                _ => {}
            }
        }
        if refusal == Refusal(0) { Ok(stat) } else { Err(CallError::Refused(refusal)) }
    }

    /// Creates `path` if there is no such znode.
    pub(crate) async fn create(&self, path: &str, data: &[u8], deadline: Instant) -> Result<Stat, CallError> {
        let private = self.has_login();
        let mut answer = self.call(&Operation::Create { path, data, private }, deadline).await?;
        answer.text().and_then(|_| Stat::read(&mut answer)).map_err(CallError::Unknown)
    }

    /// The stat of `path`.
    pub(crate) async fn stat(&self, path: &str, deadline: Instant) -> Result<Option<Stat>, CallError> {
        match self.call(&Operation::Exists(path), deadline).await {
            Ok(mut answer) => Stat::read(&mut answer).map(Some).map_err(CallError::Unknown),
            Err(CallError::Refused(Refusal::NO_NODE)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The names of the znodes right below `path`, as the leader knows them now; none if there is no such
    /// znode.
    pub(crate) async fn children(&self, path: &str, deadline: Instant) -> Result<Vec<String>, CallError> {
        let connection = self.connection(deadline).await.map_err(CallError::Unsent)?;
        drop(connection.send(&Operation::Sync(path))?);
        let answer =
            connection.send(&Operation::Children(path))?.answer(deadline, self.0.reply_timeout()).await;
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(CallError::Refused(Refusal::NO_NODE)) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let count = answer.int().map_err(CallError::Unknown)?;
        (0..count).map(|_| answer.text().map_err(CallError::Unknown)).collect()
    }

    /// Ends the session, so that the ensemble need not keep it until it times out.
    pub(crate) async fn close(&self) {
        let Some(open) = self.0.open_connection() else { return };
        if let Ok(closing) = open.send(&Operation::Close) {
            let _ = closing.answer(self.deadline(), self.0.reply_timeout()).await;
        }
    }

    /// Asks a member a four-letter word.
    pub(crate) async fn four_letter_word(&self, member: &Member, word: &str) -> Result<String, NodeError> {
        let limit = self.0.connect_timeout;
        let asked = async {
            let mut stream = member.address.open(limit).await?;
            let mut answer = String::new();
            let talk = async {
                stream.write_all(word.as_bytes()).await?;
                stream.flush().await?;
                stream.take(MAX_WORD_ANSWER).read_to_string(&mut answer).await
            };
            talk.await.map_err(|error| NodeError::Disconnected { source: Arc::new(error) })?;
            Ok(answer)
        };
        timeout(limit, asked).await.unwrap_or(Err(NodeError::Timeout { after: limit }))
    }

    /// The member that answers at the moment.
    pub(crate) fn current_member(&self) -> Option<&Member> {
        self.0.open_connection().and_then(|open| self.0.members.get(open.member))
    }
}

impl Shared {
    fn open_connection(&self) -> Option<Arc<Connection>> {
        self.open.lock().clone().filter(|open| open.is_open())
    }

    /// How long a member may owe an answer before another one is asked.
    fn reply_timeout(&self) -> Duration {
        (self.limits.request / 2).max(MIN_REPLY_TIMEOUT)
    }

    /// Opens a connection to the first member that gives one.
    async fn connect(&self) -> Result<Arc<Connection>, NodeError> {
        let mut refused = self.refused.lock().await;
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        if let Some(refused) = refused.as_ref().filter(|refused| refused.at.elapsed() < refused.delay) {
            return Err(refused.error.clone());
        }
        let mut failure = no_members();
        for _ in 0..self.members.len() {
            let member = self.next.load(Ordering::Relaxed) % self.members.len();
            let limit = self.connect_timeout;
            let opened = timeout(limit, self.connect_to(member)).await;
            match opened.unwrap_or(Err(NodeError::Timeout { after: limit })) {
                Ok(open) => {
                    let open = Arc::new(open);
                    *self.open.lock() = Some(open.clone());
                    *refused = None;
                    return Ok(open);
                }
                Err(error) if tells_more(&error) >= tells_more(&failure) => failure = error,
                Err(_) => {}
            }
            self.next.store(member + 1, Ordering::Relaxed);
        }
        let delay =
            refused.as_ref().map_or(RETRY_DELAYS.0, |refused| (2 * refused.delay).min(RETRY_DELAYS.1));
        *refused = Some(Refused { at: Instant::now(), delay, error: failure.clone() });
        Err(failure)
    }

    async fn connect_to(&self, number: usize) -> Result<Connection, NodeError> {
        let member = &self.members[number];
        let (login, limit) = (self.login.as_ref(), self.connect_timeout);
        let open = Connection::open((number, &member.address), login, &self.zxid, limit).await?;
        let found = match self.find_identity(&open).await? {
            Some(found) => found,
            None if self.identity.lock().is_some() => 0,
            None => {
                self.create_root(&open).await?;
                self.find_identity(&open).await?.unwrap_or_default()
            }
        };
        let first = *self.identity.lock().get_or_insert(found);
        if found != first {
            let member = member.authority.as_str().into();
            return Err(NodeError::OtherCluster { member, found, first });
        }
        Ok(open)
    }

    /// What identifies the ensemble: when our first znode was created. `None` if it was not.
    async fn find_identity(&self, open: &Connection) -> Result<Option<u64>, NodeError> {
        let path = &self.paths.locks;
        drop(self.ask(open, &Operation::Sync(path)).await);
        match self.ask(open, &Operation::Exists(path)).await {
            Ok(mut answer) => {
                let Stat { czxid, ctime, .. } = Stat::read(&mut answer)?;
                Ok(Some((ctime ^ czxid.rotate_left(42)).cast_unsigned()))
            }
            Err(CallError::Refused(Refusal::NO_NODE)) => Ok(None),
            Err(error) => Err(error.cause(path)),
        }
    }

    /// Creates what must exist before the first lock.
    async fn create_root(&self, open: &Connection) -> Result<(), NodeError> {
        let private = self.login.is_some();
        for path in self.paths.roots() {
            match self.ask(open, &Operation::Create { path, data: &[], private }).await {
                Ok(_) | Err(CallError::Refused(Refusal::NODE_EXISTS)) => {}
                Err(error) => return Err(error.cause(path)),
            }
        }
        Ok(())
    }

    async fn ask(&self, open: &Connection, operation: &Operation<'_>) -> Result<Bytes, CallError> {
        open.send(operation)?.answer(Instant::now() + self.connect_timeout, self.connect_timeout).await
    }
}

pub(crate) fn data_of(answer: Result<Bytes, CallError>) -> Result<Option<(Bytes, Stat)>, CallError> {
    match answer {
        Ok(mut answer) => {
            let parsed = answer.buffer().and_then(|data| Ok((data, Stat::read(&mut answer)?)));
            parsed.map(Some).map_err(CallError::Unknown)
        }
        Err(CallError::Refused(Refusal::NO_NODE)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How much an error tells an operator: a member that is down less than one that refuses us.
fn tells_more(error: &NodeError) -> u8 {
    match error {
        NodeError::Unreachable { .. } | NodeError::Timeout { .. } => 0,
        NodeError::Disconnected { .. } => 1,
        _ => 2,
    }
}

fn no_members() -> NodeError {
    let source = io::Error::new(io::ErrorKind::NotFound, "the address names no member");
    NodeError::Unreachable { source: Arc::new(source) }
}
