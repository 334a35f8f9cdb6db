//! The address of a PostgreSQL database, as libpq writes it.

use crate::error::url::UrlError;
use crate::node::url::parse::{
    HIDDEN, Parts, decode, file_option, filled, host_and_port, no_host, user_and_password, yes_or_no,
};
use crate::node::url::{Encoded, Endpoint, TlsFiles};
use std::fmt;
use std::path::PathBuf;

/// The port of PostgreSQL.
pub(crate) const PORT: u16 = 5432;
/// The longest name of anything in a database, in bytes.
const LONGEST_NAME: usize = 63;
const OPTIONS: &str = "schema, durable, sslmode, sslrootcert, sslcert, sslkey, host, port, user, password, dbname, \
    application_name, target_session_attrs, channel_binding";

/// How to reach a database.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Database {
    /// Its servers; one at least. The one that is no standby is used.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) name: String,
    /// Where the tables and functions are.
    pub(crate) schema: String,
    /// Whether the address says that no failover loses a commit.
    pub(crate) durable: bool,
    pub(crate) ssl: Ssl,
    pub(crate) application: Option<String>,
}

/// How connections are encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ssl {
    pub(crate) mode: SslMode,
    pub(crate) files: TlsFiles,
}

/// What is asked of the server, as libpq names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SslMode {
    /// No TLS.
    Disable,
    /// TLS if the server has it, with any certificate.
    #[default]
    Prefer,
    /// TLS with any certificate.
    Require,
    /// TLS with a certificate of a known authority, for any name.
    VerifyCa,
    /// TLS with a certificate of a known authority for this host.
    VerifyFull,
}

impl Database {
    /// The schema unless the address names one.
    const SCHEMA: &str = "quorlock";

    /// Whether `scheme` is one of such addresses.
    pub(crate) fn has_scheme(scheme: &str) -> bool {
        matches!(scheme.to_ascii_lowercase().as_str(), "postgres" | "postgresql")
    }
}

/// The options of an address.
#[derive(Default)]
struct Options {
    host: Option<String>,
    port: Option<String>,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
    schema: Option<String>,
    durable: bool,
    ssl: Ssl,
    /// Whether the authorities of the system are asked for.
    has_system_roots: bool,
    application: Option<String>,
}

/// The database that the text after the scheme names.
pub(super) fn parse(scheme: &str, rest: &str) -> Result<Database, UrlError> {
    if !cfg!(feature = "postgres") {
        return Err(UrlError::NotBuilt { scheme: scheme.to_owned(), feature: "postgres" });
    }
    let Parts { credentials, address, path, query } = Parts::of(scheme, rest)?;
    let (user, password) = credentials.map_or(Ok((None, None)), user_and_password)?;
    let mut options = Options::of(query)?;
    if options.has_system_roots {
        options.ssl.mode = SslMode::VerifyFull;
    }
    let missing = |what| UrlError::Missing { scheme: format!("{scheme}://"), what };
    let user = options.user.or(user).ok_or_else(|| missing("user"))?;
    let path = filled(decode(path.trim_end_matches('/'), "database")?);
    let name = options.database.or(path).unwrap_or_else(|| user.clone());
    let address = options.host.as_deref().unwrap_or(address);
    let port = match options.port.as_deref() {
        None => PORT,
        Some(text) => host_and_port(&format!("h:{text}"), PORT)?.1,
    };
    let endpoints = address.split(',').map(|host| endpoint(scheme, host.trim(), port));
    Ok(Database {
        endpoints: endpoints.collect::<Result<_, _>>()?,
        user,
        password: options.password.or(password),
        name,
        schema: options.schema.unwrap_or_else(|| Database::SCHEMA.to_owned()),
        durable: options.durable,
        ssl: options.ssl,
        application: options.application,
    })
}

impl Options {
    fn of(query: Option<&str>) -> Result<Self, UrlError> {
        let mut options = Self::default();
        let (mut cert, mut key) = (None, None);
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (option, value) = pair.split_once('=').unwrap_or((pair, ""));
            match option {
                "host" => options.host = filled(decode(value, "host")?),
                "port" => options.port = filled(decode(value, "port")?),
                "user" => options.user = filled(decode(value, "user")?),
                "password" => options.password = filled(decode(value, "password")?),
                "dbname" => options.database = filled(decode(value, "database")?),
                "schema" => options.schema = Some(schema(decode(value, "schema")?)?),
                "durable" => options.durable = yes_or_no("durable", value)?,
                "sslmode" => options.ssl.mode = mode(value)?,
                "sslrootcert" if value == "system" => options.has_system_roots = true,
                "sslrootcert" => options.ssl.files.ca = Some(file_option("sslrootcert", value)?),
                "sslcert" => cert = Some(file_option("sslcert", value)?),
                "sslkey" => key = Some(file_option("sslkey", value)?),
                "application_name" => options.application = filled(decode(value, "application_name")?),
                // The server that accepts writes is used in any case.
                "target_session_attrs" => one_of(option, value, &["any", "read-write", "primary"])?,
                "channel_binding" => one_of(option, value, &["disable", "prefer"])?,
                _ => {
                    // A bare `&` in a password ends it here, and what follows is a piece of it.
                    let is_secret = query.is_some_and(|query| query.contains("password="));
                    let option = if is_secret { HIDDEN } else { option }.into();
                    return Err(UrlError::Option { option, allowed: OPTIONS });
                }
            }
        }
        options.ssl.files.identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (cert, _) => {
                let option = if cert.is_some() { "sslkey" } else { "sslcert" };
                let allowed = "both `sslcert` and `sslkey`, or neither";
                return Err(UrlError::Value { option, value: String::new(), allowed });
            }
        };
        Ok(options)
    }
}

/// A host with a port, or the directory of a Unix socket.
fn endpoint(scheme: &str, host: &str, port: u16) -> Result<Endpoint, UrlError> {
    // As libpq does, also with its slashes encoded.
    if host.starts_with('/') || host.to_ascii_lowercase().starts_with("%2f") {
        let directory = PathBuf::from(decode(host, "host")?);
        return Ok(Endpoint::Unix(directory.join(format!(".s.PGSQL.{port}"))));
    }
    match host_and_port(host, port)? {
        (host, _) if host.is_empty() => Err(no_host(scheme)),
        (host, port) => Ok(Endpoint::Tcp { host, port, tls: None }),
    }
}

fn schema(name: String) -> Result<String, UrlError> {
    let value = |allowed| UrlError::Value { option: "schema", value: name.clone(), allowed };
    match name.as_str() {
        "public" => Err(value(
            "a schema of its own, because `public` has tables of others; `quorlock` if none is given",
        )),
        name if name.is_empty() || name.len() > LONGEST_NAME || name.starts_with("pg_") => {
            Err(value("a name of 1 to 63 bytes that does not start with `pg_`"))
        }
        name if name.chars().any(char::is_control) => Err(value("a name without control characters")),
        _ => Ok(name),
    }
}

fn mode(value: &str) -> Result<SslMode, UrlError> {
    Ok(match value {
        "disable" => SslMode::Disable,
        "prefer" | "allow" => SslMode::Prefer,
        "require" => SslMode::Require,
        "verify-ca" => SslMode::VerifyCa,
        "verify-full" => SslMode::VerifyFull,
        _ => {
            let allowed = "disable, prefer, require, verify-ca or verify-full";
            return Err(UrlError::Value { option: "sslmode", value: value.into(), allowed });
        }
    })
}

fn one_of(option: &str, value: &str, allowed: &[&str]) -> Result<(), UrlError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(match option {
        "channel_binding" => UrlError::Value {
            option: "channel_binding",
            value: value.into(),
            allowed: "disable or prefer; this program has no channel binding, use sslmode=verify-full",
        },
        _ => UrlError::Value {
            option: "target_session_attrs",
            value: value.into(),
            allowed: "any, read-write or primary; a standby keeps no locks",
        },
    })
}

impl fmt::Display for Database {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://")?;
        for (at, endpoint) in self.endpoints.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match endpoint {
                Endpoint::Tcp { .. } => write!(f, "{comma}{endpoint}")?,
                Endpoint::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
        }
        write!(f, "/{}", Encoded { text: &self.name, slashes: 0 })?;
        if self.schema != Self::SCHEMA {
            write!(f, "?schema={}", Encoded { text: &self.schema, slashes: 0 })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({self})")
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    fn parsed(rest: &str) -> Result<Database, UrlError> {
        parse("postgres", rest)
    }

    #[test]
    fn the_address_that_people_have_is_understood() {
        let table = [
            ("//ann:pw@db/shop", "postgres://db:5432/shop"),
            ("//ann:p%40w@DB:6432/shop?sslmode=require", "postgres://db:6432/shop"),
            ("//ann@a,b:5433/shop?target_session_attrs=read-write", "postgres://a:5432,b:5433/shop"),
            ("//ann@[::1]:5433/", "postgres://[::1]:5433/ann"),
            ("///shop?host=/run/pg&user=ann", "postgres:///run/pg/.s.PGSQL.5432/shop"),
            ("//ann@%2Frun%2Fpg/shop?port=7", "postgres:///run/pg/.s.PGSQL.7/shop"),
            ("//ann@db/shop?schema=my%20locks", "postgres://db:5432/shop?schema=my%20locks"),
        ];
        for (rest, shown) in table {
            assert_eq!(parsed(rest).unwrap().to_string(), shown, "{rest}");
        }
        let secret = parsed("//ann:p%40w@db/shop?durable=yes").unwrap();
        assert_eq!((secret.password.as_deref(), secret.durable), (Some("p@w"), true));
        assert!(!format!("{secret:?}").contains("p@w"));
    }

    #[test]
    fn hosts_of_one_database_are_one_address_in_a_list() {
        let list = crate::node::split_list("postgres://ann@a,b:1/shop?durable=yes,redis://c");
        assert_eq!(list, ["postgres://ann@a,b:1/shop?durable=yes", "redis://c"]);
        let url: crate::node::NodeUrl = list[0].parse().unwrap();
        assert_eq!((url.kind(), url.has_password()), (crate::node::NodeKind::Postgres, false));
        let bare = "db:5432".parse::<crate::node::NodeUrl>().unwrap_err();
        assert!(bare.to_string().contains("`postgres://db:5432`"), "{bare}");
    }

    #[test]
    fn modes_of_tls_are_those_of_libpq() {
        for (text, mode) in [
            ("", SslMode::Prefer),
            ("?sslmode=disable", SslMode::Disable),
            ("?sslmode=verify-ca", SslMode::VerifyCa),
            ("?sslmode=require&sslrootcert=system", SslMode::VerifyFull),
        ] {
            assert_eq!(parsed(&format!("//ann@db/shop{text}")).unwrap().ssl.mode, mode, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_name_and_without_a_password() {
        let table = [
            ("//db/shop", "needs a user"),
            ("//ann@/shop", "needs a host"),
            ("//ann@db/shop?schema=public", "schema of its own"),
            ("//ann@db/shop?schema=pg_locks", "pg_"),
            ("//ann@db/shop?sslmode=perhaps", "verify-full"),
            ("//ann@db/shop?sslcert=/c.pem", "sslkey"),
            ("//ann@db/shop?statement_timeout=1", "statement_timeout"),
            ("//ann@db/shop?target_session_attrs=standby", "a standby keeps no locks"),
            ("//ann@db/shop?channel_binding=require", "verify-full"),
            ("//ann@db/shop?password=a&b", "..."),
        ];
        for (rest, why) in table {
            let error = parsed(rest).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("b`"), "{rest}: {error}");
        }
    }
}
