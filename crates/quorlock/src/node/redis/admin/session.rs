//! A connection for one user at a time, for commands that leave state on it.

use crate::context::Surroundings;
use crate::node::net::stream::Address;
use crate::node::redis::connection::handshake;
use crate::node::redis::connection::socket::Wire;
use crate::node::redis::link::Link;
use crate::node::redis::link::greeting::{Login, Visit};
use crate::node::redis::protocol::commands;
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::server_errors::classify;
use crate::node::redis::protocol::server_errors::protocol;
use crate::node::{NodeError, NodeUrl};
use std::fmt;
use std::sync::Arc;
use tokio::time::timeout;

/// Opens sessions with one server and keeps the last one for the next user.
pub(crate) struct Switchboard {
    id: Arc<str>,
    around: Surroundings,
    address: Address,
    login: Login,
    kept: Option<Session>,
    /// The connection opened last, which the next one ends in case the server still has it.
    last: Option<Visit>,
}

/// One connection of one user. Dropping it closes the connection, and the server forgets all state of it.
pub(crate) struct Session {
    wire: Wire,
}

impl Switchboard {
    /// For the server that `url` names. Nothing is sent yet.
    pub(crate) fn new(url: &NodeUrl, around: Surroundings) -> Result<Self, NodeError> {
        let (address, login) = crate::node::redis::reach(url, &around)?;
        Ok(Self { id: url.short().into(), around, address, login, kept: None, last: None })
    }

    /// The session that was kept, if there is one. The server may have closed it meanwhile.
    pub(crate) fn kept(&mut self) -> Option<Session> {
        self.kept.take()
    }

    /// Keeps a session on which no state is left.
    pub(crate) fn keep(&mut self, session: Session) {
        self.kept = Some(session);
    }

    /// Connects and introduces us, all within the connect timeout.
    ///
    /// What was sent on the connection before has happened or never will: the server is told to end it.
    pub(crate) async fn connect(&mut self) -> Result<Session, NodeError> {
        let limit = self.around.connect_timeout;
        let attempt = async {
            let mut wire = Wire::new(self.address.open(limit).await?);
            let (around, last) = (&self.around, self.last.as_ref());
            let greeting = handshake::greet(&mut wire, &self.login, around, &self.id, last).await?;
            Ok((Session { wire }, greeting.visit))
        };
        let (session, visit) = match timeout(limit, attempt).await {
            Ok(outcome) => outcome?,
            Err(_) => return Err(NodeError::Timeout { after: limit }),
        };
        self.last = Some(visit);
        Ok(session)
    }
}

impl Session {
    /// Connects and logs in, all within the connect timeout, whatever kind of server it is: for questions that must not
    /// stand between votes, and never for a vote.
    pub(crate) async fn visit(link: &Link) -> Result<Self, NodeError> {
        let limit = link.around.connect_timeout;
        let attempt = async {
            let mut wire = Wire::new(link.address.open(limit).await?);
            handshake::log_in(&mut wire, &link.login).await?;
            let mut session = Session { wire };
            if link.login.db != 0 {
                session.push(&[b"SELECT", link.login.db.to_string().as_bytes()]);
                session.okay().await?;
            }
            Ok(session)
        };
        timeout(limit, attempt).await.unwrap_or(Err(NodeError::Timeout { after: limit }))
    }

    /// Puts a command into the next write, which goes out with the next [`Session::reply`].
    pub(crate) fn push(&mut self, args: &[&[u8]]) {
        commands::raw(&mut self.wire.out, args);
    }

    /// The reply to the oldest command that has none yet. It has no time limit of its own.
    ///
    /// # Errors
    /// What the server refused, or why the connection cannot be used any more.
    pub(crate) async fn reply(&mut self) -> Result<Value, NodeError> {
        match self.whatever().await? {
            Value::Error(text) => Err(Self::refusal(&text)),
            value => Ok(value),
        }
    }

    /// Like [`Session::reply`], where an error of the server is a reply as any other.
    ///
    /// # Errors
    /// Why the connection cannot be used any more.
    pub(crate) async fn whatever(&mut self) -> Result<Value, NodeError> {
        self.wire.reply().await
    }

    /// Asks one question and waits for the answer, where an error of the server is an answer as any other.
    pub(crate) async fn say(&mut self, words: &[&str]) -> Result<Value, NodeError> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.push(&words);
        self.whatever().await
    }

    /// Like [`Session::say`], where an error of the server is an error.
    pub(crate) async fn ask(&mut self, words: &[&str]) -> Result<Value, NodeError> {
        match self.say(words).await? {
            Value::Error(text) => Err(Self::refusal(&text)),
            value => Ok(value),
        }
    }

    /// The cause that a server's error text stands for.
    pub(crate) fn refusal(text: &[u8]) -> NodeError {
        classify(text)
    }

    /// Like [`Session::reply`], where only `OK` will do.
    pub(crate) async fn okay(&mut self) -> Result<(), NodeError> {
        match self.reply().await? {
            Value::Okay => Ok(()),
            _ => Err(protocol("a command is answered by another shape than OK")),
        }
    }
}

impl fmt::Debug for Switchboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Switchboard({})", self.id)
    }
}
