//! The address of a node as people write it: a URL whose scheme chooses the kind of node.

mod parse;
pub(crate) mod postgres;
#[cfg(test)]
mod tests;

use crate::error::url::UrlError;
use postgres::Database;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What kind of node an address names. A locker uses one kind only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeKind {
    /// A Redis or Valkey server.
    Redis,
    /// An etcd cluster.
    Etcd,
    /// A PostgreSQL database.
    Postgres,
    /// A ZooKeeper ensemble.
    ZooKeeper,
    /// A Consul cluster.
    Consul,
    /// A directory on this machine.
    File,
    /// This process, for tests.
    Memory,
}

impl NodeKind {
    /// Whether one such node decides by its own consensus or durability, so that a locker takes one.
    pub(crate) fn decides_alone(self) -> bool {
        match self {
            NodeKind::Etcd | NodeKind::Postgres | NodeKind::ZooKeeper | NodeKind::Consul => true,
            NodeKind::Redis | NodeKind::File | NodeKind::Memory => false,
        }
    }
}

/// The address of one node.
///
/// | form | node |
/// |---|---|
/// | `redis://[user:password@]host[:port][/db]`, also `valkey://` | a server over TCP, by default port 6379 |
/// | `rediss://…`, `valkeys://…` | the same with TLS; `?ca=FILE`, `?cert=FILE&key=FILE` |
/// | `unix:///path/to/socket`, also `redis+unix://` | a server on this machine; `?db=N&user=U&password=P` |
/// | `etcd://[user:password@]host[:port][,…][/prefix]` | an etcd cluster by its members, by default port 2379 |
/// | `zk://[user:password@]host[:port][,…][/prefix]` | a ZooKeeper ensemble, by default port 2181 |
/// | `consul://[:token@]host[:port][,…][/prefix]` | a Consul cluster by its agents, by default port 8500 |
/// | `etcds://…`, `zks://…`, `consuls://…` | the same with TLS; `?ca=FILE`, `?cert=FILE&key=FILE` |
/// | `postgres://user[:password]@host[:port][,…]/database` | a PostgreSQL database, by default port 5432; `?sslmode=`, `?sslrootcert=FILE`, `?sslcert=FILE&sslkey=FILE`, `?schema=quorlock` |
/// | `file:`, `file:/directory` | a directory on this machine |
/// | `memory:`, `memory:label` | this process |
///
/// Servers take `?durable=yes` if they sync every write to disk, a database if no failover loses a commit. A directory takes `?filesystem=any` if only
/// this machine uses it, whatever its file system. User, password and path may be percent-encoded. Neither
/// [`fmt::Display`] nor [`fmt::Debug`] shows a password.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeUrl {
    pub(crate) place: Place,
}

/// Where the node is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Server(Server),
    Cluster(Cluster),
    Database(Box<Database>),
    Directory(Directory),
    Process(String),
}

/// Where a file node keeps its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    /// `None` leaves the choice to the file node.
    pub(crate) path: Option<PathBuf>,
    /// Whether the address allows file systems that are not known to be local.
    pub(crate) any_file_system: bool,
}

#[cfg(test)]
impl Directory {
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: Some(path.to_owned()), any_file_system: false }
    }
}

/// How to reach a Redis or Valkey server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    pub(crate) db: u32,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// Whether the address says that the server syncs every write.
    pub(crate) durable: Option<bool>,
}

/// How to reach a cluster whose own consensus decides.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) kind: ClusterKind,
    /// Its members; one at least.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) user: Option<String>,
    /// The password; Consul's token.
    pub(crate) password: Option<String>,
    /// What all keys begin with.
    pub(crate) prefix: String,
}

/// The kinds of clusters, with what their addresses begin with, with and without TLS, and their port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterKind {
    Etcd,
    ZooKeeper,
    Consul,
}

impl ClusterKind {
    pub(crate) const ALL: [Self; 3] = [Self::Etcd, Self::ZooKeeper, Self::Consul];

    /// The schemes without and with TLS.
    pub(crate) fn schemes(self) -> (&'static str, &'static str) {
        match self {
            ClusterKind::Etcd => ("etcd", "etcds"),
            ClusterKind::ZooKeeper => ("zk", "zks"),
            ClusterKind::Consul => ("consul", "consuls"),
        }
    }

    /// The kind that `scheme` names, and whether it is with TLS.
    pub(crate) fn of_scheme(scheme: &str) -> Option<(Self, bool)> {
        let scheme = scheme.to_ascii_lowercase();
        Self::ALL.into_iter().find_map(|kind| match kind.schemes() {
            (plain, _) if scheme == plain => Some((kind, false)),
            (_, tls) if scheme == tls => Some((kind, true)),
            _ => None,
        })
    }

    pub(crate) fn port(self, tls: bool) -> u16 {
        match self {
            ClusterKind::Etcd => 2379,
            ClusterKind::ZooKeeper => 2181,
            ClusterKind::Consul => 8500 + u16::from(tls),
        }
    }

    /// The feature of this library that brings it, and whether it was built with that.
    pub(crate) fn feature(self) -> (&'static str, bool) {
        match self {
            ClusterKind::Etcd => ("etcd", cfg!(feature = "etcd")),
            ClusterKind::ZooKeeper => ("zookeeper", cfg!(feature = "zookeeper")),
            ClusterKind::Consul => ("consul", cfg!(feature = "consul")),
        }
    }
}

impl Cluster {
    /// What keys begin with unless the address says otherwise.
    const PREFIX: &str = "quorlock";
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Tcp {
        /// Lower case, an IPv6 address without its brackets.
        host: String,
        port: u16,
        tls: Option<TlsFiles>,
    },
    Unix(PathBuf),
}

/// The files that a TLS connection needs beyond the system's own certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) ca: Option<PathBuf>,
    /// Certificate and key of this client.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl NodeUrl {
    /// What kind of node this is.
    pub fn kind(&self) -> NodeKind {
        match self.place {
            Place::Server(_) => NodeKind::Redis,
            Place::Cluster(Cluster { kind: ClusterKind::Etcd, .. }) => NodeKind::Etcd,
            Place::Cluster(Cluster { kind: ClusterKind::ZooKeeper, .. }) => NodeKind::ZooKeeper,
            Place::Cluster(Cluster { kind: ClusterKind::Consul, .. }) => NodeKind::Consul,
            Place::Database(_) => NodeKind::Postgres,
            Place::Directory(_) => NodeKind::File,
            Place::Process(_) => NodeKind::Memory,
        }
    }

    /// Whether the address holds a password, so that it must be kept secret.
    pub fn has_password(&self) -> bool {
        match &self.place {
            Place::Server(server) => server.password.is_some(),
            Place::Cluster(cluster) => cluster.password.is_some(),
            Place::Database(database) => database.password.is_some(),
            Place::Directory(_) | Place::Process(_) => false,
        }
    }

    /// A text that is the same for two spellings of one node, to find duplicates.
    ///
    /// Two databases of one server are one node: they fail together.
    pub fn identity(&self) -> String {
        match &self.place {
            Place::Server(server) => match &server.endpoint {
                Endpoint::Tcp { host, port, .. } => format!("redis:{}", authority(host, *port)),
                Endpoint::Unix(path) => format!("unix:{}", tidy(path).display()),
            },
            Place::Cluster(cluster) => cluster.to_string(),
            Place::Database(database) => database.to_string(),
            Place::Directory(directory) => match &directory.path {
                Some(path) => format!("file:{}", tidy(path).display()),
                None => "file:".to_owned(),
            },
            Place::Process(label) => format!("memory:{label}"),
        }
    }

    /// The short name for people: `host:port`, a socket's path, or the whole address of other kinds.
    pub fn short(&self) -> String {
        match &self.place {
            Place::Server(server) => match &server.endpoint {
                Endpoint::Tcp { host, port, .. } => authority(host, *port),
                Endpoint::Unix(path) => path.display().to_string(),
            },
            Place::Cluster(_) | Place::Database(_) | Place::Directory(_) | Place::Process(_) => {
                self.to_string()
            }
        }
    }
}

/// The addresses in a text that separates them by commas. The members of a cluster are one address,
/// although commas separate them, too: a part without a scheme belongs to the address before it.
pub fn split_list(text: &str) -> Vec<String> {
    let mut urls: Vec<String> = Vec::new();
    for piece in text.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
        match urls.last_mut().filter(|last| is_cluster(last) && !has_scheme(piece)) {
            Some(last) => *last = format!("{last},{piece}"),
            None => urls.push(piece.to_owned()),
        }
    }
    urls
}

fn is_cluster(url: &str) -> bool {
    url.split_once("://")
        .is_some_and(|(scheme, _)| ClusterKind::of_scheme(scheme).is_some() || Database::has_scheme(scheme))
}

fn has_scheme(piece: &str) -> bool {
    let scheme = piece.split(':').next().unwrap_or_default().to_ascii_lowercase();
    piece.contains("://") || matches!(scheme.as_str(), "file" | "memory")
}

/// `path` without doubled or trailing slashes and single dots.
fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}

fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl FromStr for NodeUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        parse::parse(text).map(|place| Self { place })
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Server(server) => server.fmt(f),
            Place::Cluster(cluster) => cluster.fmt(f),
            Place::Database(database) => database.fmt(f),
            Place::Directory(directory) => directory.fmt(f),
            Place::Process(label) => write!(f, "memory:{}", Encoded { text: label, slashes: 0 }),
        }
    }
}

impl fmt::Debug for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeUrl({self})")
    }
}

/// A part of an address, percent-encoded where another part would begin otherwise.
struct Encoded<'a> {
    text: &'a str,
    /// How many slashes it may begin with.
    slashes: usize,
}

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slashes = self.text.chars().take_while(|c| *c == '/').count();
        let too_many = slashes.saturating_sub(self.slashes);
        for (at, c) in self.text.chars().enumerate() {
            if at < too_many || c.is_whitespace() || c.is_control() || "%?@,".contains(c) {
                let mut bytes = [0; 4];
                c.encode_utf8(&mut bytes).bytes().try_for_each(|byte| write!(f, "%{byte:02X}"))?;
            } else {
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_deref().unwrap_or(Path::new("")).display().to_string();
        let option = if self.any_file_system { "?filesystem=any" } else { "" };
        // A host would follow two slashes.
        write!(f, "file:{}{option}", Encoded { text: &path, slashes: 1 })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Tcp { host, port, tls } => {
                let scheme = if tls.is_some() { "rediss" } else { "redis" };
                write!(f, "{scheme}://{}", authority(host, *port))?;
                if self.db != 0 {
                    write!(f, "/{}", self.db)?;
                }
                Ok(())
            }
            Endpoint::Unix(path) => {
                let path = path.display().to_string();
                write!(f, "unix://{}", Encoded { text: &path, slashes: usize::MAX })?;
                if self.db != 0 {
                    write!(f, "?db={}", self.db)?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_tls = |endpoint: &Endpoint| matches!(endpoint, Endpoint::Tcp { tls: Some(_), .. });
        let (plain, tls) = self.kind.schemes();
        write!(f, "{}://", if self.endpoints.iter().any(is_tls) { tls } else { plain })?;
        for (at, endpoint) in self.endpoints.iter().enumerate() {
            write!(f, "{}{endpoint}", if at == 0 { "" } else { "," })?;
        }
        if self.prefix != Self::PREFIX {
            write!(f, "/{}", Encoded { text: &self.prefix, slashes: 0 })?;
        }
        Ok(())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { host, port, .. } => f.write_str(&authority(host, *port)),
            Endpoint::Unix(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({self})")
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", NodeUrl { place: self.clone() })
    }
}
