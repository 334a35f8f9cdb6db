//! The same lock for code without async: every call blocks, and the watchdog runs between calls.
//!
//! All blocking lockers share one background thread, started with the first of them. It keeps
//! connections, extends held locks and announces losses while your code computes. The calls may be made
//! from any thread, even from within an async runtime, whose thread they then block.
//!
//! ```no_run
//! use quorlock::Locker;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locker = Locker::builder().nodes(["file:"]).build_blocking()?;
//! let guard = locker.named("nightly-report")?.acquire()?;
//! println!("fence {}", guard.fence());
//! println!("{}", guard.release());
//! # Ok(()) }
//! ```

mod election;
mod guard;
mod lease;
mod lock;
mod locker;
mod runtime;
mod semaphore;

pub use election::{Election, Leadership, Observation};
pub use guard::Guard;
pub use lease::Lease;
pub use lock::Lock;
pub use locker::Locker;
pub use semaphore::{Permit, Semaphore};
