//! Parsing a node's address.

use crate::error::url::UrlError;
use crate::node::url::postgres::{self, Database};
use crate::node::url::{Cluster, ClusterKind, Directory, Endpoint, Place, Server, TlsFiles};
use std::path::PathBuf;

const REDIS_PORT: u16 = 6379;
/// A database number over this is a typing error.
const MAX_DB: u32 = 1 << 24;
/// Replaces, in errors, what may be a piece of a password.
pub(super) const HIDDEN: &str = "...";
const FILE_OPTIONS: &str = "filesystem; a `?` in a path is written %3F";
const PLAIN_OPTIONS: &str = "db, durable, user, password";
const CLUSTER_OPTIONS: &str = "user, password; with TLS also ca, cert, key";
const TLS_CLUSTER_OPTIONS: &str = "user, password, ca, cert, key";
const TLS_OPTIONS: &str = "db, durable, user, password, ca, cert, key";

/// The place that `text` names.
pub(crate) fn parse(text: &str) -> Result<Place, UrlError> {
    let text = text.trim();
    if let Some(port) = bare_address(text) {
        let of_port = ClusterKind::ALL.into_iter().find(|kind| kind.port(false) == port);
        let scheme = match of_port {
            Some(kind) => kind.schemes().0,
            None if port == postgres::PORT => "postgres",
            None => "redis",
        };
        return Err(UrlError::NoScheme { address: text.into(), scheme });
    }
    let (scheme, rest) = text.split_once(':').ok_or_else(|| unknown_scheme(text))?;
    match scheme.to_ascii_lowercase().as_str() {
        "redis" | "valkey" => tcp(scheme, rest, None),
        "rediss" | "valkeys" => tcp(scheme, rest, Some(TlsFiles::default())),
        "unix" | "redis+unix" | "valkey+unix" | "file" if !cfg!(unix) => {
            Err(UrlError::NotOnThisSystem { scheme: scheme.to_owned() })
        }
        "unix" | "redis+unix" | "valkey+unix" => unix(scheme, rest),
        "file" => file(rest),
        scheme if Database::has_scheme(scheme) => Ok(Place::Database(postgres::parse(scheme, rest)?.into())),
        "memory" => Ok(Place::Process(decode(rest.trim_start_matches('/'), "label")?)),
        _ => match ClusterKind::of_scheme(scheme) {
            Some((kind, is_tls)) => cluster(kind, scheme, rest, is_tls.then(TlsFiles::default)),
            // The text after it may hold a secret.
            None => Err(unknown_scheme(scheme)),
        },
    }
}

/// The port of a text that is a host, perhaps with a port, and nothing else. Such a text holds no password.
fn bare_address(text: &str) -> Option<u16> {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let (host, port) = host_and_port(text, REDIS_PORT).ok()?;
    let is_host = host.parse::<std::net::Ipv6Addr>().is_ok() || host.chars().all(is_bare);
    (is_host && !text.ends_with(':') && !matches!(host.as_str(), "" | "file" | "memory")).then_some(port)
}

/// Without a known scheme the text may be anything, a password included: only a bare word is shown.
fn unknown_scheme(text: &str) -> UrlError {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
    UrlError::Scheme { scheme: if text.chars().all(is_bare) { text.into() } else { HIDDEN.into() } }
}

fn file(rest: &str) -> Result<Place, UrlError> {
    let (rest, query) = split_query(rest);
    let path = match rest.strip_prefix("//") {
        // As in any URL, a host is between two slashes and the path; taken for a relative directory it
        // would exclude no process that was started elsewhere.
        Some(rest) => match rest.split_once('/').unwrap_or((rest, "")) {
            ("" | "localhost", _) => rest.strip_prefix("localhost").unwrap_or(rest),
            (host, _) => return Err(UrlError::Elsewhere { host: host.into() }),
        },
        None => rest,
    };
    let path = filled(decode(path, "path")?).map(PathBuf::from);
    let mut any_file_system = false;
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("filesystem", "any") => any_file_system = true,
            ("filesystem", "local") => any_file_system = false,
            ("filesystem", value) => {
                let (value, allowed) = (value.into(), "any or local");
                return Err(UrlError::Value { option: "filesystem", value, allowed });
            }
            (option, _) => return Err(UrlError::Option { option: option.into(), allowed: FILE_OPTIONS }),
        }
    }
    Ok(Place::Directory(Directory { path, any_file_system }))
}

fn unix(scheme: &str, rest: &str) -> Result<Place, UrlError> {
    let (place, query) = split_query(rest.strip_prefix("//").unwrap_or(rest));
    // Credentials are before the first slash; an `@` after it belongs to the path.
    let (before, _) = place.split_once('/').unwrap_or((place, ""));
    let (user, password) = before.rsplit_once('@').map_or(Ok((None, None)), |it| user_and_password(it.0))?;
    let path = decode(&place[before.rfind('@').map_or(0, |at| at + 1)..], "path")?;
    if path.is_empty() {
        return Err(UrlError::Missing { scheme: format!("{scheme}://"), what: "path" });
    }
    let mut server =
        Server { endpoint: Endpoint::Unix(PathBuf::from(path)), db: 0, user, password, durable: None };
    apply(&mut server, None, query)?;
    Ok(Place::Server(server))
}

fn tcp(scheme: &str, rest: &str, mut tls: Option<TlsFiles>) -> Result<Place, UrlError> {
    let Parts { credentials, address, path: db, query } = Parts::of(scheme, rest)?;
    let (host, port) = host_and_port(address, REDIS_PORT)?;
    if host.is_empty() {
        return Err(no_host(scheme));
    }
    let (user, password) = credentials.map_or(Ok((None, None)), user_and_password)?;
    let mut server = Server {
        // Set below, because the options may still change the TLS files.
        endpoint: Endpoint::Unix(PathBuf::new()),
        db: database(db)?,
        user,
        password,
        durable: None,
    };
    apply(&mut server, tls.as_mut(), query)?;
    server.endpoint = Endpoint::Tcp { host, port, tls };
    Ok(Place::Server(server))
}

/// A cluster: its members, and what keys begin with.
fn cluster(
    kind: ClusterKind,
    scheme: &str,
    rest: &str,
    mut tls: Option<TlsFiles>,
) -> Result<Place, UrlError> {
    if let (feature, false) = kind.feature() {
        return Err(UrlError::NotBuilt { scheme: scheme.to_owned(), feature });
    }
    let Parts { credentials, address, path, query } = Parts::of(scheme, rest)?;
    let (user, password) = credentials.map_or(Ok((None, None)), user_and_password)?;
    let allowed = |tls| if tls { TLS_CLUSTER_OPTIONS } else { CLUSTER_OPTIONS };
    // Options are those of a server, except for what only servers have.
    let of_servers = ["db", "durable"];
    let options = query.unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or(pair));
    if let Some(option) = options.into_iter().find(|option| of_servers.contains(option)) {
        return Err(UrlError::Option { option: option.into(), allowed: allowed(tls.is_some()) });
    }
    let mut server =
        Server { endpoint: Endpoint::Unix(PathBuf::new()), db: 0, user, password, durable: None };
    apply(&mut server, tls.as_mut(), query).map_err(|error| match error {
        UrlError::Option { option, .. } => UrlError::Option { option, allowed: allowed(tls.is_some()) },
        other => other,
    })?;
    let (user, password) = (server.user, server.password);
    let missing = match (kind, user.is_some(), password.is_some()) {
        // A token belongs to no user.
        (ClusterKind::Consul, true, _) => {
            let (value, allowed) = (HIDDEN.into(), "a token, as in consul://:TOKEN@host");
            return Err(UrlError::Value { option: "user", value, allowed });
        }
        (_, true, false) => Some("password"),
        (ClusterKind::Etcd | ClusterKind::ZooKeeper, false, true) => Some("user"),
        _ => None,
    };
    if let Some(what) = missing {
        return Err(UrlError::Missing { scheme: format!("{scheme}://"), what });
    }
    let port = kind.port(tls.is_some());
    let member = |address: &str| match host_and_port(address.trim(), port)? {
        (host, _) if host.is_empty() => Err(no_host(scheme)),
        (host, port) => Ok(Endpoint::Tcp { host, port, tls: tls.clone() }),
    };
    let endpoints = address.split(',').map(member).collect::<Result<_, _>>()?;
    let prefix = decode(path.trim_matches('/'), "prefix")?;
    // The keys below one prefix must not be below those of another.
    if prefix.split('/').any(|part| matches!(part, "" | "lock" | "fence")) && !prefix.is_empty() {
        let allowed = "parts that are neither empty nor `lock` or `fence`";
        return Err(UrlError::Value { option: "prefix", value: prefix, allowed });
    }
    let prefix = if prefix.is_empty() { Cluster::PREFIX.to_owned() } else { prefix };
    Ok(Place::Cluster(Cluster { kind, endpoints, user, password, prefix }))
}

/// What an address with a host consists of.
pub(super) struct Parts<'a> {
    pub(super) credentials: Option<&'a str>,
    pub(super) address: &'a str,
    /// What follows the slash.
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(scheme: &str, rest: &'a str) -> Result<Self, UrlError> {
        let (place, query) = split_query(rest.strip_prefix("//").ok_or_else(|| no_host(scheme))?);
        // A password with a bare `?` would be taken apart there, and its pieces shown in an error.
        if query.is_some_and(|query| query.contains('@')) {
            return Err(UrlError::Encoding { part: "password or option" });
        }
        // The last `@` ends the credentials, so that a password may hold one; a path never does.
        let (credentials, place) = match place.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, place),
        };
        let (address, path) = place.split_once('/').unwrap_or((place, ""));
        Ok(Self { credentials, address, path, query })
    }
}

pub(super) fn no_host(scheme: &str) -> UrlError {
    UrlError::Missing { scheme: format!("{scheme}://"), what: "host" }
}

pub(super) fn user_and_password(text: &str) -> Result<(Option<String>, Option<String>), UrlError> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(decode(password, "password")?)),
        None => (text, None),
    };
    let user = decode(user, "user")?;
    Ok((filled(user), password.and_then(filled)))
}

pub(super) fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Host in lower case and port; `default` unless one is given.
pub(super) fn host_and_port(address: &str, default: u16) -> Result<(String, u16), UrlError> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(|| bad_host(address))?;
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(bad_host(host));
            }
            let port = match rest.strip_prefix(':') {
                None if rest.is_empty() => None,
                None => return Err(bad_host(address)),
                Some(port) => Some(port),
            };
            (host, port)
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let odd = |c: char| c.is_whitespace() || c.is_control() || "%\\#[]".contains(c);
    if host.contains(odd) {
        return Err(bad_host(host));
    }
    let port = match port {
        None | Some("") => default,
        Some(text) => match text.parse() {
            Ok(port) if port != 0 => port,
            // If the host was forgotten, the password is in the place of the port.
            _ if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(UrlError::Port { port: text.into() });
            }
            _ => return Err(UrlError::Port { port: HIDDEN.into() }),
        },
    };
    Ok((host.to_ascii_lowercase(), port))
}

fn bad_host(host: &str) -> UrlError {
    UrlError::Host { host: host.into() }
}

fn database(text: &str) -> Result<u32, UrlError> {
    let text = text.trim_end_matches('/');
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().ok().filter(|db| *db <= MAX_DB).ok_or_else(|| UrlError::Database { db: text.into() })
}

/// Applies the options of `query`; those of TLS only where `tls` is given.
fn apply(server: &mut Server, mut tls: Option<&mut TlsFiles>, query: Option<&str>) -> Result<(), UrlError> {
    let (mut cert, mut key) = (None, None);
    let pairs = query.unwrap_or_default().split('&');
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let (option, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (option, tls.as_deref_mut()) {
            ("db", _) => server.db = database(value)?,
            ("user", _) => server.user = filled(decode(value, "user")?),
            ("password", _) => server.password = filled(decode(value, "password")?),
            ("durable", _) => server.durable = Some(yes_or_no("durable", value)?),
            ("ca", Some(tls)) => tls.ca = Some(file_option("ca", value)?),
            ("cert", Some(_)) => cert = Some(file_option("cert", value)?),
            ("key", Some(_)) => key = Some(file_option("key", value)?),
            (_, tls) => {
                // A bare `&` in a password ends it here, and what follows is a piece of it.
                let is_secret = query.is_some_and(|query| query.contains("password="));
                return Err(UrlError::Option {
                    option: if is_secret { HIDDEN } else { option }.into(),
                    allowed: if tls.is_some() { TLS_OPTIONS } else { PLAIN_OPTIONS },
                });
            }
        }
    }
    match (cert, key, tls) {
        (None, None, _) | (_, _, None) => Ok(()),
        (Some(cert), Some(key), Some(tls)) => {
            tls.identity = Some((cert, key));
            Ok(())
        }
        (cert, ..) => Err(UrlError::Value {
            option: if cert.is_some() { "key" } else { "cert" },
            value: String::new(),
            allowed: "both `cert` and `key`, or neither",
        }),
    }
}

pub(super) fn yes_or_no(option: &'static str, value: &str) -> Result<bool, UrlError> {
    match value.to_ascii_lowercase().as_str() {
        "yes" | "true" | "1" => Ok(true),
        "no" | "false" | "0" => Ok(false),
        _ => Err(UrlError::Value { option, value: value.into(), allowed: "yes or no" }),
    }
}

pub(super) fn file_option(option: &'static str, value: &str) -> Result<PathBuf, UrlError> {
    match decode(value, option)? {
        path if path.is_empty() => {
            Err(UrlError::Value { option, value: String::new(), allowed: "the path of a PEM file" })
        }
        path => Ok(path.into()),
    }
}

fn split_query(text: &str) -> (&str, Option<&str>) {
    match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    }
}

/// Undoes percent-encoding.
pub(super) fn decode(text: &str, part: &'static str) -> Result<String, UrlError> {
    let bad = || UrlError::Encoding { part };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let digits = after.get(..2).ok_or_else(bad)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let high = digit(digits[0]).ok_or_else(bad)?;
        let low = digit(digits[1]).ok_or_else(bad)?;
        bytes.push(high << 4 | low);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| bad())
}
