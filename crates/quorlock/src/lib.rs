//! A distributed lock that can be trusted.

mod clock;
mod entropy;
mod event;
pub mod node;
mod round;
mod surroundings;

pub use clock::{Clock, SystemClock};
pub use entropy::{Entropy, SystemEntropy};
pub use event::{Event, Observer};
pub use quorlock_core as core;
pub use surroundings::RestartGuard;
