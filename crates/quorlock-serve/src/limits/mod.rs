//! The bounds of a sidecar.

pub(crate) mod rate_limit;
pub(crate) mod waiters;

use std::time::Duration;

/// The bounds of a sidecar. Everything that callers can pile up has one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Locks held through the sidecar at the same time, by token or by connection (default 10 000).
    pub sessions: usize,
    /// Open connections (default 12 000). One more replaces the connection that was idle longest and
    /// showed no secret. If there is no such connection, the new one may only ask for `/healthz` and
    /// `/readyz`, on one of [`Limits::PROBES`] further connections, and gets 503 for everything else.
    pub connections: usize,
    /// Calls that wait for a lock at the same time (default 10 000).
    pub waiters: usize,
    /// Names per second that each secret may use for the first time, and 100 times that number at once
    /// (default 100; 0 for no limit). Callers without a secret share one limit for each
    /// [`Peer`](crate::Peer).
    pub new_names: u32,
    /// How long a caller may take to send the first byte of a connection (default 5 s).
    pub first_byte: Duration,
    /// How long a caller may take to send the head of a request, and how long a connection may be idle
    /// (default 30 s).
    pub head: Duration,
    /// How long a caller may take to send the body of a request (default 10 s).
    pub body: Duration,
    /// How long running requests may take to end at a shutdown (default 10 s).
    pub drain: Duration,
}

impl Limits {
    /// Connections for probes when all others are in use.
    pub const PROBES: usize = 16;
    /// The largest body of a request, in bytes.
    pub const BODY: usize = 16 * 1024;
    /// The longest wait for a lock.
    pub const WAIT: Duration = Duration::from_secs(3600);
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 10_000,
            connections: 12_000,
            waiters: 10_000,
            new_names: 100,
            first_byte: Duration::from_secs(5),
            head: Duration::from_secs(30),
            body: Duration::from_secs(10),
            drain: Duration::from_secs(10),
        }
    }
}
