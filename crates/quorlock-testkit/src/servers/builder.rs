//! The options of a test server.

use crate::processes::clockshim::ClockShim;
use crate::processes::spawn::find_program;
use crate::servers::certs::Certs;
use crate::servers::server::Server;
use std::path::{Path, PathBuf};

/// Which server program to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binary {
    /// `redis-server`, from the path or from `QUORLOCK_REDIS_SERVER`.
    #[default]
    Redis,
    /// `valkey-server`, from `QUORLOCK_VALKEY_SERVER`, from the path, or where
    /// `scripts/setup-tests` put it.
    Valkey,
}

/// When an append-only file reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Before every answer.
    Always,
    /// Once a second: a crash of the machine loses the tail.
    EverySecond,
    /// When the kernel decides.
    No,
}

/// Options of a [`Server`]. Without any: Redis, no password, nothing kept over a restart.
#[derive(Clone, Debug, Default)]
pub struct ServerBuilder {
    binary: Binary,
    password: Option<String>,
    acl: Vec<String>,
    tls: Option<TlsClients>,
    cluster: bool,
    shim: Option<ClockShim>,
    lines: Vec<String>,
}

/// Whether a TLS server asks clients for a certificate.
#[derive(Clone, Copy, Debug)]
enum TlsClients {
    Anyone,
    Certified,
}

/// The user of [`Server::cli`] and of replicas. It has all rights, even if a test sets an ACL of
/// its own.
pub(crate) const TESTKIT_USER: &str = "testkit";

impl Binary {
    /// The program, if this machine has it.
    pub fn find(self) -> Option<PathBuf> {
        let (name, variable) = match self {
            Self::Redis => ("redis-server", "QUORLOCK_REDIS_SERVER"),
            Self::Valkey => ("valkey-server", "QUORLOCK_VALKEY_SERVER"),
        };
        let installed = crate::processes::peer::deps_directory().join("valkey").join(name);
        std::env::var_os(variable)
            .map(PathBuf::from)
            .or_else(|| find_program(name))
            .or_else(|| installed.is_file().then_some(installed))
    }

    /// Whether this machine has it. Says so on stderr if not, for tests that then skip.
    pub fn is_here(self) -> bool {
        let here = self.find().is_some();
        if !here {
            eprintln!("skipped: no {self:?} server here, see scripts/setup-tests");
        }
        here
    }
}

impl ServerBuilder {
    /// Runs this program.
    pub fn binary(mut self, binary: Binary) -> Self {
        self.binary = binary;
        self
    }

    /// Asks the default user for a password. [`Server::url`] then carries it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds a line of the ACL file, such as `user app on >secret ~* &* +@all -eval`.
    pub fn acl(mut self, line: &str) -> Self {
        self.acl.push(line.into());
        self
    }

    /// Also listens for TLS on a second port, with fresh certificates.
    pub fn tls(mut self) -> Self {
        self.tls = Some(TlsClients::Anyone);
        self
    }

    /// Like [`tls`](Self::tls), and turns clients without a certificate away.
    pub fn tls_with_client_certs(mut self) -> Self {
        self.tls = Some(TlsClients::Certified);
        self
    }

    /// Keeps an append-only file.
    pub fn aof(self, fsync: Fsync) -> Self {
        let when = match fsync {
            Fsync::Always => "always",
            Fsync::EverySecond => "everysec",
            Fsync::No => "no",
        };
        self.line("appendonly yes").line(&format!("appendfsync {when}"))
    }

    /// Limits the memory, such as `("2mb", "allkeys-lru")`.
    pub fn maxmemory(self, limit: &str, policy: &str) -> Self {
        self.line(&format!("maxmemory {limit}")).line(&format!("maxmemory-policy {policy}"))
    }

    /// Follows another test server.
    pub fn replica_of(self, port: u16) -> Self {
        self.line(&format!("replicaof 127.0.0.1 {port}"))
            .line(&format!("masteruser {TESTKIT_USER}"))
            .line(&format!("masterauth {TESTKIT_USER}"))
    }

    /// Runs as a cluster of one server that owns all slots. Starting it takes two seconds: for that
    /// long Redis does not trust a new cluster.
    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self
    }

    /// Lets the server see this clock.
    pub fn clock(mut self, shim: &ClockShim) -> Self {
        self.shim = Some(shim.clone());
        self
    }

    /// Adds any other line of the configuration file.
    pub fn line(mut self, line: &str) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Starts the server and waits until it answers. Blocks for some 20 ms.
    pub fn start(self) -> Server {
        Server::start_with(self)
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.binary.find().unwrap_or_else(|| panic!("no {:?} server, see scripts/setup-tests", self.binary))
    }

    pub(crate) fn shim(&self) -> Option<&ClockShim> {
        self.shim.as_ref()
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.cluster
    }

    pub(crate) fn wants_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The `user:password@` part of an address.
    pub(crate) fn url_userinfo(&self) -> String {
        self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default()
    }

    /// The configuration file.
    pub(crate) fn config(&self, directory: &Path, port: u16, tls: Option<(u16, &Certs)>) -> String {
        let directory = directory.display();
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("port {port}"),
            format!("dir {directory}"),
            format!("unixsocket {directory}/server.sock"),
            format!("aclfile {directory}/users.acl"),
            // A restart forgets, unless the test asks for an append-only file.
            "save \"\"".to_owned(),
            // A replica need not wait for others.
            "repl-diskless-sync-delay 0".to_owned(),
        ];
        if let (Some((port, certs)), Some(clients)) = (tls, self.tls) {
            let ask = match clients {
                TlsClients::Anyone => "no",
                TlsClients::Certified => "yes",
            };
            lines.extend([
                format!("tls-port {port}"),
                format!("tls-ca-cert-file {}", certs.ca().display()),
                format!("tls-cert-file {}", certs.server_cert().display()),
                format!("tls-key-file {}", certs.server_key().display()),
                format!("tls-auth-clients {ask}"),
            ]);
        }
        if self.cluster {
            lines.push("cluster-enabled yes".to_owned());
        }
        lines.extend(self.lines.iter().cloned());
        lines.join("\n") + "\n"
    }

    /// The file of users.
    pub(crate) fn users(&self) -> String {
        let mut lines = vec![format!("user {TESTKIT_USER} on >{TESTKIT_USER} ~* &* +@all")];
        if !self.acl.iter().any(|line| line.starts_with("user default ")) {
            let secret = match &self.password {
                Some(password) => format!(">{password}"),
                None => "nopass".to_owned(),
            };
            lines.push(format!("user default on {secret} ~* &* +@all"));
        }
        lines.extend(self.acl.iter().cloned());
        lines.join("\n") + "\n"
    }
}
