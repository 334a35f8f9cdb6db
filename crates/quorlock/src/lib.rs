//! A distributed lock that can be trusted: Redlock with fences, a restart guard and a loss signal.
//!
//! A lock over N independent Redis or Valkey servers: a majority must grant it, time bounds it, a token
//! proves it, and a fence protects what it guards. On one machine it needs no server at all (`file:`). A
//! store can decide instead: `etcd://a,b,c`, `postgres://host/database`, `zk://a,b,c` or `consul://agent`, each
//! with the feature of its name (`etcd`, `postgres`, `zookeeper`, `consul`).
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
//! - [`Lease`]: a view of a held lock for other tasks; [`Lock::run`] hands one to the work.
//! - [`Lock::shared`]: readers that share a lock; [`Locker::all`]: several names together.
//! - [`Semaphore`] and [`Permit`]: at most so many clients at a time; [`Election`] and [`Leadership`]: one leader.
//! - [`blocking`]: the same types without async.
//! - [`fenced`]: a resource that refuses an outdated holder.
//! - [`optimistic`]: changes of one value that need no lock.
//! - `metrics` (with the feature of that name): numbers for Prometheus and others.
//! - [`node`]: what votes, and how to bring a node of your own.
//!
//! # What to do with errors
//! [`AcquireError::Held`]: try later, or skip the work. [`AcquireError::NoQuorum`]: wake an operator; each
//! node's cause is in it. [`Lost`]: stop the work, another client may hold the lock soon.
//! [`ReleaseOutcome::Unconfirmed`]: nothing; the ttl frees the lock.
//!
//! `docs/guarantees.md` in the repository lists the promises, their assumptions and what is not promised.
//!
//! # Where it runs
//! Tested on Linux. It also builds for macOS, and for Windows without `file:` and `unix://`.
//!
//! Connections, watchdogs and timers are tasks. A locker starts its connections on the tokio runtime that
//! first uses it. A guard starts its watchdog on the runtime that acquired the lock. A task runs only
//! while its runtime runs: if a current-thread runtime is not inside `block_on`, its tasks send nothing,
//! extend nothing and announce no loss, even for other runtimes that share the locker.
//! [`Lease::remaining`] is right in any case: it reads the clock.
//!
//! # Public dependencies
//! [`CancellationToken`] is tokio-util's own: a token of ours would have to be converted wherever code
//! selects on one.
//!
//! # Layout
//! A folder uses only the folders listed above it; `tests/layout.rs` checks that.
//!
//! - `error/`: what can go wrong, each variant a decision for the caller
//! - `context/`: what every part shares: clock, randomness, connector, settings, events
//! - `node/`: anything that can vote: the contract, and the redis, file and memory nodes, and stores that decide
//!   alone
//! - `metrics/`: events and the health of nodes as numbers
//! - `quorum/`: one command to many nodes, replies counted
//! - `inspect/`: reading locks and nodes without holding anything
//! - `acquire/`: from the call to the grant: queue, attempt, undo, waiting
//! - `hold/`: from the grant to the release: guard, watchdog, extend, loss, release
//! - `locker/`: the types that users start with, and their configuration
//! - `store/`: values that refuse an outdated holder (`fenced`) or that need no lock (`optimistic`)
//! - `blocking/`: the same types without async
//!
//! ARCHITECTURE.md in the repository follows one lock through these folders.

#![cfg_attr(docsrs, feature(doc_cfg))] // docs.rs names the feature that an item needs.

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

/// What the fuzz targets in `fuzz/` call of the private parts.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::node::check_reply_bytes;
}

pub use context::RestartGuard;
pub use context::clock::{Clock, SystemClock};
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub use context::connector::{Connecting, Connector, Stream};
pub use context::entropy::{Entropy, SystemEntropy};
pub use context::event::{Event, GaveUpReason, Observer, ReleaseKind};
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub use context::injected_bug::InjectedBug;
pub use error::{
    AcquireError, ConfigError, ExtendError, HeldName, Holder, Lost, NoQuorum, NodeOutcome, NodeReport,
    UpgradeError,
};
pub use hold::extend_by_token::ExtendOutcome;
pub use hold::guard::Guard;
pub use hold::handle::LockHandle;
pub use hold::lease::Lease;
pub use hold::release::ReleaseOutcome;
pub use inspect::examine::NodeExamination;
pub use inspect::list::{ListError, Listing};
pub use inspect::slots::{NodeSlots, SlotsInspection};
pub use inspect::{InspectError, Inspection, NodeView};
pub use locker::Locker;
pub use locker::builder::Builder;
pub use locker::election::{Election, Leader, LeaderChange, Leadership, Observation};
pub use locker::lock::{Lock, RunError};
pub use locker::semaphore::{Permit, Semaphore};
pub use quorlock_core::{
    Drift, DriftError, Fence, Label, LeaseState, LossReason, Mode, Moment, Name, NameError, NameSet,
    NameSetError, Owner, Quorum, QuorumError, Rounded, StoredLock, Token, TokenError, TtlError, advised_ttl,
    printable,
};
pub use store::{fenced, optimistic};
pub use tokio_util::sync::CancellationToken;

#[cfg(not(any(unix, windows)))]
compile_error!("quorlock needs a clock that counts sleep: that of a Unix system, or of Windows");
