//! One connection to the server that is no standby.

use crate::context::mutex::Mutex;
use crate::context::{Context, entropy};
use crate::node::NodeError;
use crate::node::engine::Failure;
use crate::node::net::stream::Address;
use crate::node::postgres::errors::{self, PROTOCOL_VIOLATION};
use crate::node::postgres::tls::{Handshake, Session, Socket};
use crate::node::server_text::server_text;
use crate::node::url::Endpoint;
use crate::node::url::postgres::{Database, SslMode};
use quorlock_core::Wall;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client, Config, Error, SimpleQueryMessage, config};

/// The setting by which a session knows that no pooler gave it to another client.
const DIRECT: &str = "quorlock.direct";

/// Opens connections to the database.
#[derive(Debug)]
pub(crate) struct Connector {
    servers: Vec<Server>,
    database: Database,
    ctx: Context,
    id: Arc<str>,
    /// How long a statement waits for a row, in milliseconds.
    row_timeout_ms: u64,
    /// The server that was no standby last time.
    preferred: AtomicUsize,
    /// Whether a pooler refused a greeting with options.
    refuses_options: AtomicBool,
}

#[derive(Debug)]
struct Server {
    name: String,
    address: Address,
    handshake: Handshake,
}

/// What a session says of its server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Greeting {
    pub(crate) server: String,
    pub(crate) version: String,
    pub(crate) is_standby: bool,
    pub(crate) settings: Settings,
    /// Whether the session is ours alone.
    pub(crate) is_direct: bool,
    pub(crate) ahead_micros: Option<i64>,
    pub(crate) round_trip: Duration,
}

/// The settings of a server that locks depend on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) fsync: String,
    pub(crate) full_page_writes: String,
    pub(crate) isolation: String,
    pub(crate) synchronous_commit: String,
}

impl Settings {
    /// The setting that locks cannot live with, if there is one.
    fn check(&self) -> Result<(), NodeError> {
        let checks = [
            ("fsync", &self.fsync, "on"),
            ("full_page_writes", &self.full_page_writes, "on"),
            ("default_transaction_isolation", &self.isolation, "read committed"),
        ];
        match checks.into_iter().find(|(_, found, needed)| found != needed) {
            None => Ok(()),
            Some((setting, found, needed)) => {
                Err(NodeError::Setting { setting, found: server_text(found).into(), needed })
            }
        }
    }
}

impl Greeting {
    /// Why this server cannot be a node, if it cannot.
    pub(crate) fn check(&self) -> Result<(), NodeError> {
        if self.is_standby {
            return Err(NodeError::Standby);
        }
        self.settings.check()
    }
}

impl Connector {
    /// Reads the certificates. Connects to no server yet.
    pub(crate) fn new(
        database: &Database,
        ctx: &Context,
        id: Arc<str>,
        row_timeout: Duration,
    ) -> Result<Self, NodeError> {
        let server = |endpoint: &Endpoint| {
            let handshake = match endpoint {
                Endpoint::Tcp { host, .. } => Handshake::new(host, &database.ssl)?,
                Endpoint::Unix(_) => Handshake(None),
            };
            let address = Address::new(endpoint, &ctx.connector)?;
            Ok(Server { name: endpoint.to_string(), address, handshake })
        };
        Ok(Self {
            servers: database.endpoints.iter().map(server).collect::<Result<_, NodeError>>()?,
            database: database.clone(),
            ctx: ctx.clone(),
            id,
            row_timeout_ms: u64::try_from(row_timeout.as_millis()).unwrap_or(u64::MAX).max(1),
            preferred: AtomicUsize::new(0),
            refuses_options: AtomicBool::new(false),
        })
    }

    /// For how many milliseconds a statement waits for a row, where the session does not know it.
    pub(crate) fn row_timeout_ms(&self, is_direct: bool) -> i128 {
        if is_direct { 0 } else { self.row_timeout_ms.into() }
    }

    /// Connects to the server that can be a node. Notifications go to `notifications`.
    pub(crate) async fn connect(
        &self,
        notifications: Option<Notifications>,
    ) -> Result<Connection, NodeError> {
        let found = self.connect_any(notifications).await?;
        found.greeting.check()?;
        Ok(found)
    }

    /// Connects to the first server that is no standby; to a standby if there are only such.
    pub(crate) async fn connect_any(
        &self,
        notifications: Option<Notifications>,
    ) -> Result<Connection, NodeError> {
        let first = self.preferred.load(Ordering::Relaxed);
        let (mut standby, mut failure) = (None, NodeError::Abandoned);
        for at in (0..self.servers.len()).map(|step| (first + step) % self.servers.len()) {
            let limit = self.ctx.connect_timeout;
            let found = timeout(limit, self.connect_to(&self.servers[at], notifications.clone())).await;
            match found.unwrap_or(Err(NodeError::Timeout { after: limit })) {
                Ok(found) if found.greeting.is_standby => standby = Some(found),
                Ok(found) => {
                    self.preferred.store(at, Ordering::Relaxed);
                    return Ok(found);
                }
                Err(error) => failure = error,
            }
        }
        standby.ok_or(failure)
    }

    async fn connect_to(
        &self,
        server: &Server,
        notifications: Option<Notifications>,
    ) -> Result<Connection, NodeError> {
        let nonce = format!("{:x}", entropy::number(self.ctx.entropy.as_ref()));
        let schema = &self.database.schema;
        let opened = match self.refuses_options.load(Ordering::Relaxed) {
            true => self.open(server, None).await?,
            false => self.open(server, Some(&nonce)).await?,
        };
        let (client, connection) = match opened {
            Err(error) if errors::code(&error) == Some(PROTOCOL_VIOLATION) => {
                self.refuses_options.store(true, Ordering::Relaxed);
                self.open(server, None).await?.map_err(|error| errors::cause(&error, schema))?
            }
            opened => opened.map_err(|error| errors::cause(&error, schema))?,
        };
        let mut connection = Connection::start(client, connection, notifications);
        connection.greeting = self.greet(&connection, server, &nonce).await?;
        Ok(connection)
    }

    /// Opens a stream and logs in; with `nonce`, the session is set up for us.
    async fn open(&self, server: &Server, nonce: Option<&str>) -> Result<Result<Raw, Error>, NodeError> {
        let stream = server.address.open(self.ctx.connect_timeout).await?;
        let mut config = Config::new();
        config.user(&self.database.user).dbname(&self.database.name);
        config.application_name(self.database.application.as_deref().unwrap_or("quorlock"));
        if let Some(password) = &self.database.password {
            config.password(password);
        }
        config.ssl_mode(match (&server.handshake.0, self.database.ssl.mode) {
            (None, _) | (_, SslMode::Disable) => config::SslMode::Disable,
            (_, SslMode::Prefer) => config::SslMode::Prefer,
            _ => config::SslMode::Require,
        });
        if let Some(nonce) = nonce {
            // A statement that the server ends while it waits for standbys would be answered as if they had it.
            config.options(format!(
                "-c {DIRECT}={nonce} -c lock_timeout={} -c statement_timeout=0 \
                 -c default_transaction_isolation=read\\ committed",
                self.row_timeout_ms
            ));
        }
        Ok(config.connect_raw(Socket(stream), server.handshake.clone()).await)
    }

    async fn greet(
        &self,
        connection: &Connection,
        server: &Server,
        nonce: &str,
    ) -> Result<Greeting, NodeError> {
        let start = Instant::now();
        let rows = connection
            .query(&format!(
                "SELECT current_setting('server_version'), pg_is_in_recovery(), current_setting('fsync'), \
                 current_setting('full_page_writes'), current_setting('transaction_isolation'), \
                 current_setting('synchronous_commit'), current_setting('{DIRECT}', true), \
                 (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
            ))
            .await
            .map_err(|error| errors::cause(&error, &self.database.schema))?;
        let round_trip = start.elapsed();
        let column = |at: usize| rows.first().and_then(|row| row.get(at).cloned().flatten());
        let text = |at: usize| column(at).map(server_text).unwrap_or_default();
        let there = column(7).and_then(|micros| micros.parse::<u64>().ok());
        if let Some(there) = there {
            self.ctx.node_clocks.record(&self.id, Wall::from_micros(there), self.ctx.clock.now());
        }
        let ahead = |there: u64| {
            let here = i128::from(self.ctx.clock.wall().as_micros()) - (round_trip / 2).as_micros() as i128;
            i64::try_from(i128::from(there) - here).ok()
        };
        Ok(Greeting {
            server: server.name.clone(),
            version: text(0),
            is_standby: text(1) == "t",
            settings: Settings {
                fsync: text(2),
                full_page_writes: text(3),
                isolation: text(4),
                synchronous_commit: text(5),
            },
            is_direct: text(6) == nonce,
            ahead_micros: there.and_then(ahead),
            round_trip,
        })
    }
}

/// Receives the payload of each notification.
pub(crate) type Notifications = UnboundedSender<String>;

type Raw = (Client, tokio_postgres::Connection<Socket, Session>);

/// A row of an answer, as texts.
pub(crate) type Row = Vec<Option<String>>;

/// An open connection. Dropping it closes it at once, whatever is under way.
#[derive(Debug)]
pub(crate) struct Connection {
    client: Client,
    driver: JoinHandle<()>,
    /// What the server warned of.
    warning: Arc<Mutex<Option<String>>>,
    pub(crate) greeting: Greeting,
}

impl Connection {
    fn start(
        client: Client,
        mut connection: tokio_postgres::Connection<Socket, Session>,
        notifications: Option<Notifications>,
    ) -> Self {
        let warning: Arc<Mutex<Option<String>>> = Arc::default();
        let warned = warning.clone();
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                match (message, &notifications) {
                    (AsyncMessage::Notice(notice), _)
                        if notice.parsed_severity() == Some(Severity::Warning) =>
                    {
                        *warned.lock() = Some(server_text(notice.message()));
                    }
                    (AsyncMessage::Notification(notification), Some(notifications)) => {
                        let _ = notifications.send(notification.payload().to_owned());
                    }
                    _ => {}
                }
            }
        });
        Self { client, driver, warning, greeting: Greeting::default() }
    }

    /// Whether it is known to be closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed() || self.driver.is_finished()
    }

    /// Waits until it is closed.
    pub(crate) async fn closed(&mut self) {
        let _ = (&mut self.driver).await;
    }

    /// Executes one statement, and returns its rows once the server is ready for the next one.
    pub(crate) async fn query(&self, statement: &str) -> Result<Vec<Row>, Error> {
        let messages = self.client.simple_query(statement).await?;
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        };
        Ok(messages.into_iter().filter_map(row).collect())
    }

    /// Executes a statement whose rows begin with `echo`.
    ///
    /// # Errors
    /// [`Failure::Unknown`] also if the server warned: it does so if a commit is not yet on its standbys.
    pub(crate) async fn ask(&self, statement: &str, echo: u64, schema: &str) -> Result<Vec<Row>, Failure> {
        let rows = self.query(statement).await.map_err(|error| match errors::code(&error) {
            Some(errors::LOCK_TIMEOUT) => Failure::Unsent(NodeError::Busy),
            _ => errors::failure(&error, schema),
        })?;
        if let Some(message) = self.warning.lock().take() {
            return Err(Failure::Unknown(NodeError::Server { message: message.into() }));
        }
        let echo = echo.to_string();
        if rows.iter().any(|row| row.first() != Some(&Some(echo.clone()))) {
            let reason = "the answer is that to another statement".into();
            return Err(Failure::Unknown(NodeError::Protocol { reason }));
        }
        Ok(rows)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
