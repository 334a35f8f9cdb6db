//! Settings that come from Python: seconds become durations, and only values that were given are applied.

use crate::errors::config_error;
use pyo3::prelude::*;
use quorlock::node::split_list;
use quorlock::{Builder, ConfigError, Lock, Locker, RestartGuard};
use std::time::Duration;

/// The longest wait that is kept: `float("inf")` means this. Ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A time as Python code gives it: a number of seconds or a `timedelta`.
#[derive(Clone, Copy, FromPyObject)]
pub(crate) enum Seconds {
    /// Seconds.
    Number(f64),
    /// A `timedelta`.
    Delta(Duration),
}

impl Seconds {
    /// The duration; an infinite one is ten years.
    pub(crate) fn duration(self, py: Python<'_>) -> PyResult<Duration> {
        match self {
            Seconds::Delta(delta) => Ok(delta),
            Seconds::Number(number) if number == f64::INFINITY => Ok(LONGEST),
            Seconds::Number(number) => Duration::try_from_secs_f64(number)
                .map_err(|error| config_error(py, &format!("{number} seconds cannot be used; {error}"))),
        }
    }
}

/// Each one that was given, as a duration.
fn span(py: Python<'_>, seconds: Option<Seconds>) -> PyResult<Option<Duration>> {
    seconds.map(|seconds| seconds.duration(py)).transpose()
}

/// The URLs of nodes.
#[derive(FromPyObject)]
enum Nodes {
    /// In one text, as in `QUORLOCK_NODES`.
    Text(String),
    /// In a list.
    List(Vec<String>),
}

/// The settings of a locker, by the names of the arguments of `quorlock.Locker`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RawLockerSettings {
    nodes: Option<Nodes>,
    longest_ttl: Option<Seconds>,
    node_timeout: Option<Seconds>,
    connect_timeout: Option<Seconds>,
    drift: Option<f64>,
    fences: Option<bool>,
    durable: Option<bool>,
    restart_guard: Option<bool>,
    allow_eviction: Option<bool>,
    locks: RawLockSettings,
}

/// The settings of a locker. They can be applied once more in a forked process.
pub(crate) struct LockerSettings {
    raw: RawLockerSettings,
    times: [Option<Duration>; 3],
    /// What each lock begins with.
    pub(crate) locks: LockSettings,
}

impl LockerSettings {
    /// Converts times.
    pub(crate) fn new(py: Python<'_>, raw: RawLockerSettings) -> PyResult<Self> {
        let times = [span(py, raw.longest_ttl)?, span(py, raw.node_timeout)?, span(py, raw.connect_timeout)?];
        let locks = LockSettings::new(py, raw.locks.clone())?;
        Ok(Self { raw, times, locks })
    }

    /// A locker with these settings. Nodes that are not named come from `QUORLOCK_NODES`.
    pub(crate) fn build(&self) -> Result<Locker, ConfigError> {
        let raw = &self.raw;
        let builder = match &raw.nodes {
            Some(Nodes::Text(text)) => Locker::builder().nodes(split_list(text)),
            Some(Nodes::List(urls)) => Locker::builder().nodes(urls.iter().cloned()),
            None => Builder::from_env()?,
        };
        let [longest_ttl, node_timeout, connect_timeout] = self.times;
        let guard = |is_strict| if is_strict { RestartGuard::Strict } else { RestartGuard::Off };
        let builder = with(builder, longest_ttl, Builder::longest_ttl);
        let builder = with(builder, node_timeout, Builder::node_timeout);
        let builder = with(builder, connect_timeout, Builder::connect_timeout);
        let builder = with(builder, raw.drift, Builder::drift_factor);
        let builder = with(builder, raw.fences, Builder::fences);
        let builder = with(builder, raw.durable, Builder::durable);
        let builder = with(builder, raw.restart_guard.map(guard), Builder::restart_guard);
        let builder = with(builder, raw.allow_eviction, Builder::allow_eviction);
        self.locks.apply_to_builder(builder).build()
    }
}

/// The settings of one lock, by the names of the arguments of `Locker.lock`.
#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RawLockSettings {
    ttl: Option<Seconds>,
    wait: Option<Seconds>,
    max_attempts: Option<u32>,
    watchdog: Option<bool>,
    max_hold: Option<Seconds>,
    loss_margin: Option<Seconds>,
    owner: Option<String>,
    reason: Option<String>,
}

/// The settings of one lock.
pub(crate) struct LockSettings {
    raw: RawLockSettings,
    ttl: Option<Duration>,
    /// How long to wait at most.
    pub(crate) wait: Option<Duration>,
    max_hold: Option<Duration>,
    loss_margin: Option<Duration>,
}

impl LockSettings {
    /// Converts times.
    pub(crate) fn new(py: Python<'_>, raw: RawLockSettings) -> PyResult<Self> {
        let (ttl, wait) = (span(py, raw.ttl)?, span(py, raw.wait)?);
        let (max_hold, loss_margin) = (span(py, raw.max_hold)?, span(py, raw.loss_margin)?);
        Ok(Self { raw, ttl, wait, max_hold, loss_margin })
    }

    /// `lock` with these settings.
    pub(crate) fn apply(&self, lock: Lock) -> Lock {
        let lock = with(lock, self.ttl, Lock::ttl);
        let lock = with(lock, self.wait, Lock::wait_timeout);
        let lock = with(lock, self.raw.max_attempts, Lock::max_attempts);
        let lock = with(lock, self.raw.watchdog, Lock::watchdog);
        let lock = with(lock, self.max_hold, Lock::max_hold);
        let lock = with(lock, self.loss_margin, Lock::loss_margin);
        let lock = with(lock, self.raw.owner.clone(), Lock::owner);
        with(lock, self.raw.reason.clone(), Lock::reason)
    }

    fn apply_to_builder(&self, builder: Builder) -> Builder {
        let builder = with(builder, self.ttl, Builder::ttl);
        let builder = with(builder, self.wait, Builder::wait_timeout);
        let builder = with(builder, self.raw.max_attempts, Builder::max_attempts);
        let builder = with(builder, self.raw.watchdog, Builder::watchdog);
        let builder = with(builder, self.max_hold, Builder::max_hold);
        let builder = with(builder, self.loss_margin, Builder::loss_margin);
        let builder = with(builder, self.raw.owner.clone(), Builder::owner);
        with(builder, self.raw.reason.clone(), Builder::reason)
    }
}

/// `subject` with `value` set, if there is one.
fn with<T, V>(subject: T, value: Option<V>, set: impl FnOnce(T, V) -> T) -> T {
    match value {
        Some(value) => set(subject, value),
        None => subject,
    }
}
