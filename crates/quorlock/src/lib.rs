//! A distributed lock that can be trusted: Redlock with fences, a restart guard and a loss signal.
//!
//! A lock over N independent Redis or Valkey servers: a majority must grant it, time bounds it, a token proves it,
//! and a fence protects what it guards. On one machine it needs no server at all (`file:`). An etcd cluster can decide instead
//! (`etcd://a,b,c`, with the feature `etcd`).
//!
//! ```
//! use quorlock::{AcquireError, Locker};
//! use std::time::Duration;
//!
//! # async fn do_work() {}
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locker = Locker::builder()
//!     .nodes(["memory:a", "memory:b", "memory:c"]) // in production: "redis://a", "redis://b", "redis://c"
//!     .ttl(Duration::from_secs(10))
//!     .build()?; // all configuration errors surface here
//! let lock = locker.named("invoice:42")?;
//! let guard = lock.acquire().await?; // waits, bounded
//! println!("{} valid for {:?}", guard.fence(), guard.remaining());
//! match lock.try_acquire().await {
//!     Err(AcquireError::Held { holder, .. }) => println!("held by {holder}"),
//!     other => panic!("{other:?}"),
//! }
//! tokio::select! {
//!     biased;
//!     lost = guard.lost() => eprintln!("{lost}"), // fires before the deadline
//!     () = do_work() => {}
//! }
//! let outcome = guard.release().await; // Released, AlreadyGone or Unconfirmed
//! # assert_eq!(outcome.kind(), "released");
//! # Ok(()) }
//! ```
//!
//! # Which type do I use?
//! - [`Locker`]: nodes and configuration. Make one, share it.
//! - [`Lock`]: a named thing that one could hold.
//! - [`Guard`]: a held lock, kept alive in the background and released when dropped.
//! - [`Held`]: what can be asked of a held lock; handed to [`Lock::run`].
//! - [`blocking`]: the same words without async.
//! - [`fenced`]: the other half of a lock: a resource that refuses an outdated holder.
//! - [`optimistic`]: changes of one value that need no lock.
//! - `metrics` (with the feature of that name): numbers for Prometheus and others.
//! - [`node`]: what votes, and how to bring a node of your own.
//!
//! # What to do with errors
//! [`AcquireError::Held`]: try later, or skip the work. [`AcquireError::NoQuorum`]: wake an operator; each node's cause
//! is in it. [`Lost`]: stop the work, somebody else may hold the lock soon. [`ReleaseOutcome::Unconfirmed`]: nothing; the ttl
//! frees the lock.
//!
//! The promises, their assumptions and what is not promised stand in the README of the repository.
//!
//! # Where it runs
//! On Linux, where it is tested; other Unix systems have what it needs.
//!
//! Connections, watchdogs and timers run on the tokio runtime in which a locker was first used, those of a lock on the one
//! in which it was acquired. Each must be driven: a current-thread runtime that nobody blocks on sends nothing, extends
//! nothing, and announces no loss, also for other runtimes that share the locker. [`Held::remaining`] stays true.

mod acquire;
pub mod blocking;
mod context;
mod error;
mod hold;
mod inspect;
mod locker;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod node;
mod quorum;
mod store;

pub use context::RestartGuard;
pub use context::clock::{Clock, SystemClock};
pub use context::entropy::{Entropy, SystemEntropy};
pub use context::event::{Event, GaveUpReason, Observer, ReleaseKind};
#[cfg(feature = "injected-bugs")]
#[doc(hidden)]
pub use context::injected_bug::InjectedBug;
pub use error::{AcquireError, ConfigError, ExtendError, Holder, Lost, NoQuorum, NodeOutcome, NodeReport};
pub use hold::extend_by_token::ExtendOutcome;
pub use hold::guard::Guard;
pub use hold::handle::LockHandle;
pub use hold::lease::Lease;
pub use hold::release::ReleaseOutcome;
pub use inspect::examine::NodeExamination;
pub use inspect::list::{ListError, Listing};
pub use inspect::{InspectError, Inspection, NodeView};
pub use locker::Locker;
pub use locker::builder::Builder;
pub use locker::lock::{Lock, RunError};
pub use quorlock_core::{
    Drift, DriftError, Fence, Label, LeaseState, LossReason, Moment, Name, NameError, Owner, Quorum,
    QuorumError, Rounded, StoredLock, Token, TokenError, TtlError, advised_ttl, printable,
};
pub use store::{fenced, optimistic};
pub use tokio_util::sync::CancellationToken;

#[cfg(not(unix))]
compile_error!("quorlock needs a Unix system: its clocks and file locks are those of one");
