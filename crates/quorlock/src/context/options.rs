//! How one lock is taken and kept: the settings of a locker that each lock may change for itself.

use crate::error::ConfigError;
use quorlock_core::{Drift, Name, Signature, Ttl};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The shortest notice before the deadline at which a loss is announced.
const LEAST_MARGIN: Duration = Duration::from_millis(2);

/// What makes a ttl useful, the same for all locks of a locker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TtlRules {
    pub(crate) drift: Drift,
    pub(crate) node_timeout: Duration,
    pub(crate) longest: Duration,
    pub(crate) is_single: bool,
}

impl TtlRules {
    pub(crate) fn check(self, ttl: Duration) -> Result<Ttl, ConfigError> {
        let ttl = Ttl::new(ttl, self.drift, self.node_timeout, self.longest)?;
        Ok(if self.is_single { ttl.on_one_node() } else { ttl })
    }
}

/// How one lock is taken and kept.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) ttl: Ttl,
    pub(crate) wait: Duration,
    pub(crate) attempts: u32,
    pub(crate) watchdog: bool,
    /// Whether locks get a fence.
    pub(crate) fences: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) loss_margin: Option<Duration>,
    /// The owner, for people who ask who holds it.
    pub(crate) who: Arc<str>,
    pub(crate) reason: Option<Arc<str>>,
    /// Both as nodes store them.
    pub(crate) signature: Arc<Signature>,
    pub(crate) tied: bool,
    pub(crate) cancel: Option<CancellationToken>,
    /// The first value that a lock was given and that cannot be used.
    pub(crate) invalid: Option<Box<ConfigError>>,
}

impl Options {
    pub(crate) const DEFAULT_WAIT: Duration = Duration::from_secs(10);
    pub(crate) const DEFAULT_ATTEMPTS: u32 = 10_000;

    /// Signs with the `who` and the `reason` that it has now.
    pub(crate) fn sign(&mut self) {
        self.signature = signature(&self.who, self.reason.as_deref());
    }

    /// How long before the deadline a loss is announced: 2 % of the ttl unless set otherwise, and not later
    /// than the lock can be extended.
    pub(crate) fn margin(&self) -> Duration {
        self.loss_margin
            .unwrap_or(self.ttl.span() / 50)
            .max(LEAST_MARGIN)
            .max(self.ttl.vote_window())
            .min(self.ttl.validity() / 2)
            .min(self.max_hold.unwrap_or(Duration::MAX) / 2)
    }
}

/// The settings that the locks of a locker begin with, in many copies so that few locks share one.
///
/// Every attempt clones and drops these `Arc`s. Threads that share a copy wait for each other's caches. One
/// copy for each lock would be cold with thousands of locks.
#[derive(Debug)]
pub(crate) struct ShardedOptions {
    options: Options,
    shards: [OnceLock<Arc<Options>>; 256],
}

impl ShardedOptions {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, shards: [const { OnceLock::new() }; 256] }
    }

    /// What the lock called `name` begins with.
    pub(crate) fn of(&self, name: &Name) -> Arc<Options> {
        let shard = &self.shards[name.number() as usize % self.shards.len()];
        shard.get_or_init(|| Arc::new(self.copy())).clone()
    }

    fn copy(&self) -> Options {
        let signature = Arc::new(Signature::clone(&self.options.signature));
        Options { signature, ..self.options.clone() }
    }
}

/// What the locks of this process are labelled with.
pub(crate) fn signature(who: &str, reason: Option<&str>) -> Arc<Signature> {
    Arc::new(Signature::new(who, std::process::id(), reason))
}

pub(crate) fn check_attempts(attempts: u32) -> Result<u32, ConfigError> {
    if attempts == 0 {
        return Err(setting("attempts", 0, "give at least 1"));
    }
    Ok(attempts)
}

/// Nodes forget the fence of a name that was idle for 7 days, so no lock may go longer without a command.
pub(crate) fn check_longest(longest: Duration) -> Result<(), ConfigError> {
    if longest > Duration::from_secs(7 * 24 * 3600) {
        return Err(setting("a longest ttl", format!("{longest:?}"), "give at most 7 days"));
    }
    Ok(())
}

pub(crate) fn check_max_hold(hold: Duration) -> Result<Duration, ConfigError> {
    if hold.is_zero() {
        return Err(setting("a maximal hold", "0s", "give a positive time"));
    }
    Ok(hold)
}

pub(crate) fn check_margin(margin: Duration, ttl: Ttl) -> Result<Duration, ConfigError> {
    if margin > ttl.validity() / 2 {
        return Err(setting(
            "a loss margin",
            format!("{margin:?}"),
            "give at most half of the ttl's validity",
        ));
    }
    Ok(margin)
}

pub(crate) fn setting(setting: &'static str, value: impl ToString, allowed: &'static str) -> ConfigError {
    ConfigError::Setting { setting, value: value.to_string(), allowed }
}
