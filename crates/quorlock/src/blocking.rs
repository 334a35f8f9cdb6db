//! The same lock for code without async: every call blocks, and the watchdog runs between calls.
//!
//! All blocking lockers share one background thread, started with the first of them. It keeps connections, extends
//! held locks and announces losses while your code computes. The calls may be made from any thread, also from
//! within an async runtime, whose thread they then block.
//!
//! ```no_run
//! use quorlock::blocking::Locker;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locker = Locker::builder().nodes(["file:"]).build()?;
//! let guard = locker.named("nightly-report")?.acquire()?;
//! println!("fence {}", guard.fence());
//! println!("{}", guard.release());
//! # Ok(()) }
//! ```

use crate::builder::Builder;
use crate::error::{AcquireError, ConfigError, ExtendError, Lost};
use crate::handle::Handle;
use crate::inspect::{InspectError, Inspection};
use crate::node::{Health, NodeError};
use crate::release::Release;
use quorlock_core::{Name, NameError, Quorum, Standing, Token};
use std::cell::Cell;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;
use tokio::runtime::{Builder as RuntimeBuilder, Runtime};
use tokio_util::sync::CancellationToken;

/// The one background thread. Never shut down: held locks of any part of the program may depend on it.
static ENGINE: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = RuntimeBuilder::new_multi_thread();
    let builder = builder.worker_threads(1).thread_name("quorlock").on_thread_start(|| IS_ENGINE.set(true));
    let built = builder.enable_all().build();
    match built {
        Ok(runtime) => runtime,
        Err(error) => panic!("cannot start the background thread of quorlock::blocking: {error}"),
    }
});

thread_local! {
    /// Whether this is the background thread.
    static IS_ENGINE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `future` on the background thread and waits for what it returns.
///
/// # Panics
/// On the background thread itself, where an observer may run: it would wait for itself for ever.
fn wait<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    assert!(!IS_ENGINE.get(), "quorlock::blocking cannot be called from an observer");
    let (done, result) = mpsc::sync_channel(1);
    ENGINE.spawn(async move {
        let _ = done.send(future.await);
    });
    match result.recv() {
        Ok(value) => value,
        Err(_) => panic!("a call of quorlock::blocking panicked on its background thread"),
    }
}

/// Nodes and configuration: where locks come from. The blocking twin of [`crate::Locker`].
#[derive(Clone, Debug)]
pub struct Locker(crate::Locker);

impl From<crate::Locker> for Locker {
    fn from(locker: crate::Locker) -> Self {
        Self(locker)
    }
}

impl Locker {
    /// Starts a configuration.
    pub fn builder() -> Builder<Locker> {
        Builder::default()
    }

    /// A locker with default settings on the nodes that `QUORLOCK_NODES` names, separated by commas.
    ///
    /// # Errors
    /// [`ConfigError`] if the variable is missing or its nodes cannot be used.
    pub fn from_env() -> Result<Self, ConfigError> {
        Builder::from_env()?.build()
    }

    /// The lock called `name`. It is not taken yet.
    ///
    /// # Errors
    /// [`NameError`] if it cannot be a name.
    pub fn named(&self, name: impl AsRef<str>) -> Result<Lock, NameError> {
        Ok(Lock(self.0.named(name)?))
    }

    /// Takes over a lock that another process gave away; see [`crate::Locker::adopt`].
    ///
    /// # Errors
    /// [`ExtendError`] if a majority no longer has it, or too few nodes answer.
    pub fn adopt(&self, handle: &Handle) -> Result<Guard, ExtendError> {
        let (locker, handle) = (self.0.clone(), handle.clone());
        wait(async move { locker.adopt(&handle).await }).map(Guard::new)
    }

    /// Connects; see [`crate::Locker::connect`].
    pub fn connect(&self) {
        let locker = self.0.clone();
        wait(async move { locker.connect().await });
    }

    /// Declares all nodes fresh; see [`crate::Locker::init_fresh_nodes`].
    pub fn init_fresh_nodes(&self) -> Vec<(String, Result<(), NodeError>)> {
        let locker = self.0.clone();
        wait(async move { locker.init_fresh_nodes().await })
    }

    /// What is known about each node right now, without asking any.
    pub fn health(&self) -> Vec<(String, Health)> {
        self.0.health()
    }

    /// How many nodes decide.
    pub fn quorum(&self) -> Quorum {
        self.0.quorum()
    }
}

/// A lock by its name. The blocking twin of [`crate::Lock`].
#[derive(Clone, Debug)]
pub struct Lock(crate::Lock);

impl Lock {
    /// Its name.
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// Takes the lock, waiting for it if somebody else has it; see [`crate::Lock::acquire`].
    ///
    /// # Errors
    /// [`AcquireError`]: held by somebody else, no quorum, too slow, cancelled, or too many waiters.
    pub fn acquire(&self) -> Result<Guard, AcquireError> {
        let lock = self.0.clone();
        wait(async move { lock.acquire().await }).map(Guard::new)
    }

    /// Makes one attempt, without waiting for anybody.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn try_acquire(&self) -> Result<Guard, AcquireError> {
        let lock = self.0.clone();
        wait(async move { lock.try_acquire().await }).map(Guard::new)
    }

    /// Runs `work` while the lock is held, and releases it.
    ///
    /// Blocking work cannot be cancelled from outside, so look at [`Held::is_held`] between its steps and before its
    /// last write; what to do when the lock is lost is the work's decision. What it returns comes back as it is.
    ///
    /// # Errors
    /// [`AcquireError`] if the lock could not be taken; the work was then not started.
    pub fn run<T>(&self, work: impl FnOnce(&Held) -> T) -> Result<T, AcquireError> {
        let guard = self.acquire()?;
        let result = work(&guard);
        let _outcome = guard.release();
        Ok(result)
    }

    /// Asks all nodes what they store, without taking the lock.
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered.
    pub fn inspect(&self) -> Result<Inspection, InspectError> {
        let lock = self.0.clone();
        wait(async move { lock.inspect().await })
    }

    /// Releases the lock of whoever holds it with exactly this `token`; see [`crate::Lock::force_release`].
    pub fn force_release(&self, token: Token) -> Release {
        let lock = self.0.clone();
        wait(async move { lock.force_release(token).await })
    }

    /// How long the nodes keep the lock without hearing from its holder.
    ///
    /// # Errors
    /// [`ConfigError::Ttl`] if it cannot be used.
    pub fn ttl(self, ttl: Duration) -> Result<Self, ConfigError> {
        self.0.ttl(ttl).map(Self)
    }

    /// How long [`Lock::acquire`] waits at most.
    pub fn wait(self, limit: Duration) -> Self {
        Self(self.0.wait(limit))
    }

    /// How many attempts [`Lock::acquire`] makes at most.
    ///
    /// # Errors
    /// [`ConfigError::Setting`] if it is zero.
    pub fn attempts(self, attempts: u32) -> Result<Self, ConfigError> {
        self.0.attempts(attempts).map(Self)
    }

    /// Whether the lock is extended in the background.
    pub fn watchdog(self, on: bool) -> Self {
        Self(self.0.watchdog(on))
    }

    /// How long the lock may be held at most, however often it is extended.
    ///
    /// # Errors
    /// [`ConfigError::Setting`] if it is zero.
    pub fn max_hold(self, hold: Duration) -> Result<Self, ConfigError> {
        self.0.max_hold(hold).map(Self)
    }

    /// How long before the deadline a loss is announced.
    ///
    /// # Errors
    /// [`ConfigError::Setting`] if it is over half of the validity.
    pub fn loss_margin(self, margin: Duration) -> Result<Self, ConfigError> {
        self.0.loss_margin(margin).map(Self)
    }

    /// Why the lock is taken, for people who ask who holds it.
    pub fn reason(self, reason: impl Into<Arc<str>>) -> Self {
        Self(self.0.reason(reason))
    }

    /// Gives up waiting when `token` is cancelled, from any thread.
    pub fn cancel_on(self, token: CancellationToken) -> Self {
        Self(self.0.cancel_on(token))
    }

    /// Whether the lock stays when this process ends without releasing it; see [`crate::Lock::outlives_process`].
    pub fn outlives_process(self, outlives: bool) -> Self {
        Self(self.0.outlives_process(outlives))
    }
}

/// A held lock, kept alive in the background and released when dropped. The blocking twin of [`crate::Guard`].
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    guard: crate::Guard,
    held: Held,
}

impl Guard {
    fn new(guard: crate::Guard) -> Self {
        let held = Held(crate::Held::clone(&guard));
        Self { guard, held }
    }

    /// Releases the lock on all nodes and says what became of it.
    pub fn release(self) -> Release {
        wait(self.guard.release())
    }

    /// Stops keeping the lock alive without releasing it; see [`crate::Guard::into_handle`].
    ///
    /// # Errors
    /// [`ExtendError`] if the last extension fails; the lock is then released.
    pub fn into_handle(self) -> Result<Handle, ExtendError> {
        wait(self.guard.into_handle())
    }
}

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

/// What can be asked of a held lock. The blocking twin of [`crate::Held`].
#[derive(Clone, Debug)]
pub struct Held(crate::Held);

impl Held {
    /// The name of the lock.
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// The random proof of ownership.
    pub fn token(&self) -> Token {
        self.0.token()
    }

    /// The number to send with every write to the protected resource.
    pub fn fence(&self) -> u64 {
        self.0.fence()
    }

    /// How long the lock is held for sure, if nobody extends it.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// What the lock is worth right now: held, to be verified, or lost and why.
    pub fn standing(&self) -> Standing {
        self.0.standing()
    }

    /// Whether the lock is held for sure right now.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Blocks until the lock is lost, at most `limit` long; `None` if it was not.
    pub fn lost_within(&self, limit: Duration) -> Option<Lost> {
        let held = self.0.clone();
        wait(async move { tokio::time::timeout(limit, held.lost()).await.ok() })
    }

    /// A token that is cancelled when the lock is lost; ask it with `is_cancelled` between the steps of your work.
    pub fn lost_token(&self) -> CancellationToken {
        self.0.lost_token()
    }

    /// Extends the lock by its ttl from now; see [`crate::Held::extend`].
    ///
    /// # Errors
    /// [`ExtendError`] if it is lost, or too few nodes answered.
    pub fn extend(&self) -> Result<Duration, ExtendError> {
        let held = self.0.clone();
        wait(async move { held.extend().await })
    }

    /// Extends the lock by `ttl` from now; see [`crate::Held::extend_by`].
    ///
    /// # Errors
    /// [`ExtendError`] if it is lost, too few nodes answered, or the ttl cannot be used.
    pub fn extend_by(&self, ttl: Duration) -> Result<Duration, ExtendError> {
        let held = self.0.clone();
        wait(async move { held.extend_by(ttl).await })
    }
}
