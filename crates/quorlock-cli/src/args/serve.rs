//! `quorlock serve`: the HTTP sidecar.

use crate::duration;
use clap::{Args, ValueEnum, ValueHint, value_parser};
use quorlock_serve::{Address, Origin, Scope};
use std::path::PathBuf;
use std::time::Duration;

/// Lend locks to programs in any language over HTTP, and show a dashboard
///
/// Programs take, extend and release locks with plain requests, or hold one as long as a connection is open. Callers
/// without a secret may take locks through addresses of this machine; other addresses need --token-file or --client-ca.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER)]
pub(crate) struct Serve {
    /// Where to listen: ADDR:PORT or unix:PATH; may be given several times
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420")]
    pub(crate) listen: Vec<Address>,

    /// How long nodes keep a lock whose taker gives no ttl [default: 30s, or the longest ttl if that is shorter]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,

    /// A file with secrets that callers must show, read again on SIGHUP
    ///
    /// One per line: SCOPE:NAME:SECRET or SCOPE:SECRET, with the scope read, lock or write. The name is for the log.
    /// Lines with # are skipped.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,

    /// What callers without a secret may do [default: none with --token-file; else lock, and write on unix: sockets]
    #[arg(long, value_name = "SCOPE")]
    pub(crate) anonymous: Option<Anonymous>,

    /// Where a reverse proxy publishes the sidecar, such as `https://locks.example.com`; may be given several times
    ///
    /// Accepted in the headers Host and Origin.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) origin: Vec<Origin>,

    /// Certificate of the sidecar, in PEM: switches TLS on; read again on SIGHUP, as are the other files
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = ValueHint::FilePath)]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub(crate) tls_key: Option<PathBuf>,

    /// Authorities that sign the certificates of callers, in PEM: callers must show one
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub(crate) client_ca: Option<PathBuf>,

    /// How many locks may be held through it at the same time
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_sessions: u32,

    /// How many connections may be open at the same time
    #[arg(long, value_name = "N", default_value_t = 12_000, value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_connections: u32,

    /// How many calls may wait for locks at the same time
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u32).range(1..))]
    pub(crate) max_waiters: u32,

    /// How many names per second each secret may use for the first time, and 100 times as many at once; 0: any number
    ///
    /// Nodes keep a counter for each name for a week. Callers without a secret share one limit per kind of address.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_new_names: u32,

    /// How long requests under way may take to end at a shutdown
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(crate) drain: Duration,
}

/// What callers without a secret may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Anonymous {
    /// Nothing
    None,
    /// Look
    Read,
    /// Take locks, and extend and release their own
    Lock,
    /// Take locks away from others
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
TERM or Ctrl-C ends it: nobody gets a lock any more, holds are released, leases stay until their ttl is over, and requests \
under way end within --drain. A second one ends it at once. HUP reads the token file and the certificates again.

The log goes to stderr, with --json as one object per line. QUORLOCK_LOG changes what it has: warn, debug, quorlock=trace.

Examples:
  quorlock serve
  quorlock serve --listen unix:/run/quorlock.sock
  quorlock serve --listen 0.0.0.0:7420 --token-file tokens --tls-cert cert.pem --tls-key key.pem
  curl -X POST localhost:7420/v1/locks/report/acquire -H 'content-type: application/json' -d '{\"ttl_ms\": 30000}'
  curl -N localhost:7420/v1/locks/report/hold      (held until curl ends)";
