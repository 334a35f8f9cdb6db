//! `quorlock serve`: the HTTP sidecar.

use crate::output::duration;
use clap::{Args, ValueEnum, ValueHint, value_parser};
use quorlock_serve::{Address, Origin, Scope};
use std::path::PathBuf;
use std::time::Duration;

/// Offer locks to programs in any language over HTTP, with a dashboard
///
/// Programs acquire, extend and release locks with plain requests, or hold a lock while a
/// connection is open. On addresses of this machine, callers need no secret; other addresses need
/// --token-file or --client-ca.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER)]
pub(crate) struct Serve {
    /// Where to listen: ADDR:PORT or unix:PATH; may be given several times
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420")]
    pub(crate) listen: Vec<Address>,

    /// The ttl for requests that give none [default: 30s, or the longest ttl if that is shorter]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,

    /// A file with the secrets that callers must send; SIGHUP reloads it
    ///
    /// One per line: SCOPE:NAME:SECRET or SCOPE:SECRET, with the scope read, lock or write. The
    /// name is for the log. Lines that begin with # are comments.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,

    /// What callers without a secret may do [default: none with --token-file; else lock, and write
    /// on unix: sockets]
    #[arg(long, value_name = "SCOPE")]
    pub(crate) anonymous: Option<Anonymous>,

    /// The URL under which a reverse proxy publishes the sidecar; may be given several times
    ///
    /// Such as `https://locks.example.com`. It is accepted in the headers Host and Origin.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) origin: Vec<Origin>,

    /// Certificate of the sidecar, in PEM: switches TLS on; SIGHUP reloads it, its key and the
    /// authorities
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = ValueHint::FilePath)]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub(crate) tls_key: Option<PathBuf>,

    /// Authorities that sign the certificates of callers, in PEM: callers must present one
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub(crate) client_ca: Option<PathBuf>,

    /// How many locks may be held through the sidecar at the same time
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_sessions: u32,

    /// How many connections may be open at the same time
    #[arg(long, value_name = "N", default_value_t = 12_000, value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_connections: u32,

    /// How many requests may wait for locks at the same time
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_waiters: u32,

    /// How many new lock names per second each secret may use; 0 for no limit
    ///
    /// Bursts of 100 times as many are allowed. Nodes keep a counter for each name for a week.
    /// Callers without a secret share one limit per kind of address.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_new_names: u32,

    /// How long a shutdown waits for requests in progress
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(crate) drain: Duration,
}

/// What callers without a secret may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Anonymous {
    /// Nothing
    None,
    /// Inspect locks
    Read,
    /// Inspect locks; acquire, extend and release their own
    Lock,
    /// All of that, and release locks of other callers
    Write,
}

impl From<Anonymous> for Scope {
    fn from(anonymous: Anonymous) -> Self {
        match anonymous {
            Anonymous::None => Scope::None,
            Anonymous::Read => Scope::Read,
            Anonymous::Lock => Scope::Lock,
            Anonymous::Write => Scope::Write,
        }
    }
}

const AFTER: &str = "\
TERM or Ctrl-C shuts it down: it grants no lock any more, releases the locks that open connections hold, keeps leases until \
their ttl is over, and gives requests in progress --drain to end. A second TERM or Ctrl-C ends it at once. HUP reloads the \
token file and the certificates.

The log goes to stderr, with --json as one object per line. QUORLOCK_LOG sets its filter: warn, debug, quorlock=trace.

Examples:
  quorlock serve
  quorlock serve --listen unix:/run/quorlock.sock
  quorlock serve --listen 0.0.0.0:7420 --token-file tokens --tls-cert cert.pem --tls-key key.pem
  curl -X POST localhost:7420/v1/locks/report/acquire -H 'content-type: application/json' -d '{\"ttl_ms\": 30000}'
  curl -N localhost:7420/v1/locks/report/hold      (held until curl ends)";
