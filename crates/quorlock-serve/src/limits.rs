//! The bounds of a sidecar.

use std::time::Duration;

/// How much a sidecar takes on. Everything that callers can pile up has a bound.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Locks held through the sidecar at the same time, by token or by connection (default 10 000).
    pub sessions: usize,
    /// Open connections (default 12 000). Whoever comes too many gets 503 and is hung up on.
    pub connections: usize,
    /// Calls that wait for a lock at the same time (default 10 000).
    pub waiters: usize,
    /// How long a caller may take to send the head of a request, and how long a connection may be idle (default 30 s).
    pub head: Duration,
    /// How long a caller may take to send the body of a request (default 10 s).
    pub body: Duration,
    /// How long requests under way may take to end at a shutdown (default 10 s).
    pub drain: Duration,
}

impl Limits {
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
            head: Duration::from_secs(30),
            body: Duration::from_secs(10),
            drain: Duration::from_secs(10),
        }
    }
}
