//! A connection for one user at a time, for commands that leave state on it.

use crate::context::Context;
use crate::node::net::stream::Address;
use crate::node::redis::connection::handshake;
use crate::node::redis::connection::socket::Socket;
use crate::node::redis::link::Link;
use crate::node::redis::link::greeting::{ConnectionId, Login};
use crate::node::redis::protocol::commands;
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::server_errors::classify;
use crate::node::redis::protocol::server_errors::protocol;
use crate::node::{NodeError, NodeUrl};
use std::fmt;
use std::sync::Arc;
use tokio::time::timeout;

/// Opens sessions with one server and keeps the last one for the next user.
pub(crate) struct SessionCell {
    id: Arc<str>,
    ctx: Context,
    address: Address,
    login: Login,
    idle: Option<Session>,
    /// The connection opened last, which the next one ends in case the server still has it.
    last: Option<ConnectionId>,
}

/// One connection of one user. Dropping it closes the connection, and the server forgets all state of it.
pub(crate) struct Session {
    socket: Socket,
}

impl SessionCell {
    /// For the server that `url` names. Nothing is sent yet.
    pub(crate) fn new(url: &NodeUrl, ctx: Context) -> Result<Self, NodeError> {
        let (address, login) = crate::node::redis::reach(url, &ctx)?;
        Ok(Self { id: url.short().into(), ctx, address, login, idle: None, last: None })
    }

    /// The session that was kept, if there is one. The server may have closed it in the meantime.
    pub(crate) fn take_idle(&mut self) -> Option<Session> {
        self.idle.take()
    }

    /// Keeps a session on which no state is left.
    pub(crate) fn keep(&mut self, session: Session) {
        self.idle = Some(session);
    }

    /// Connects and runs the handshake, all within the connect timeout.
    ///
    /// What was sent on the connection before has happened or never will: the server is asked to end it.
    pub(crate) async fn connect(&mut self) -> Result<Session, NodeError> {
        let limit = self.ctx.connect_timeout;
        let attempt = async {
            let mut socket = Socket::new(self.address.open(limit).await?);
            let (ctx, last) = (&self.ctx, self.last.as_ref());
            let greeting = handshake::greet(&mut socket, &self.login, ctx, &self.id, last).await?;
            Ok::<_, NodeError>((Session { socket }, greeting.connection))
        };
        let (session, connection) = match timeout(limit, attempt).await {
            Ok(outcome) => outcome?,
            Err(_) => return Err(NodeError::Timeout { after: limit }),
        };
        self.last = Some(connection);
        Ok(session)
    }
}

impl Session {
    /// Connects and logs in, all within the connect timeout, whatever kind of server it is: for commands
    /// that must not delay votes, and never for a vote.
    pub(crate) async fn open(link: &Link) -> Result<Self, NodeError> {
        let limit = link.ctx.connect_timeout;
        let attempt = async {
            let mut socket = Socket::new(link.address.open(limit).await?);
            handshake::log_in(&mut socket, &link.login).await?;
            let mut session = Session { socket };
            if link.login.db != 0 {
                session.push(&[b"SELECT", link.login.db.to_string().as_bytes()]);
                session.expect_ok().await?;
            }
            Ok(session)
        };
        timeout(limit, attempt).await.unwrap_or(Err(NodeError::Timeout { after: limit }))
    }

    /// Puts a command into the next write, which goes out with the next [`Session::reply`].
    pub(crate) fn push(&mut self, args: &[&[u8]]) {
        commands::raw(&mut self.socket.out, args);
    }

    /// The reply to the oldest command that has none yet. It has no time limit of its own.
    ///
    /// # Errors
    /// What the server refused, or why the connection cannot be used any more.
    pub(crate) async fn reply(&mut self) -> Result<Value, NodeError> {
        match self.reply_raw().await? {
            Value::Error(text) => Err(Self::refusal(&text)),
            value => Ok(value),
        }
    }

    /// Like [`Session::reply`], except that an error of the server is a reply as any other.
    ///
    /// # Errors
    /// Why the connection cannot be used any more.
    pub(crate) async fn reply_raw(&mut self) -> Result<Value, NodeError> {
        self.socket.reply().await
    }

    /// Sends one command and waits for the answer; an error of the server is an answer as any other.
    pub(crate) async fn call_raw(&mut self, words: &[&str]) -> Result<Value, NodeError> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.push(&words);
        self.reply_raw().await
    }

    /// Like [`Session::call_raw`], except that an error of the server is an error.
    pub(crate) async fn call(&mut self, words: &[&str]) -> Result<Value, NodeError> {
        match self.call_raw(words).await? {
            Value::Error(text) => Err(Self::refusal(&text)),
            value => Ok(value),
        }
    }

    /// The cause that a server's error text means.
    pub(crate) fn refusal(text: &[u8]) -> NodeError {
        classify(text)
    }

    /// Like [`Session::reply`], except that only `OK` is accepted.
    pub(crate) async fn expect_ok(&mut self) -> Result<(), NodeError> {
        match self.reply().await? {
            Value::Okay => Ok(()),
            _ => Err(protocol("a command is answered by another shape than OK")),
        }
    }
}

impl fmt::Debug for SessionCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionCell({})", self.id)
    }
}
