//! A distributed lock that can be trusted.

mod acquire;
mod attempt;
pub mod blocking;
mod builder;
mod clock;
mod entropy;
mod error;
mod event;
mod extend;
pub mod fenced;
mod guard;
mod handle;
mod hold;
mod identity;
mod inspect;
mod lock;
mod locker;
pub mod node;
mod options;
mod queue;
mod release;
mod round;
mod surroundings;
mod ticker;
mod voters;
mod watchdog;

pub use builder::Builder;
pub use clock::{Clock, SystemClock};
pub use entropy::{Entropy, SystemEntropy};
pub use error::{AcquireError, ConfigError, ExtendError, Holder, Lost, NodeReport, Said};
pub use event::{Event, Observer};
pub use guard::{Guard, Held};
pub use handle::Handle;
pub use inspect::{InspectError, Inspection, NodeView};
pub use lock::{Lock, RunError};
pub use locker::Locker;
pub use quorlock_core::{
    self as core, Fence, Loss, Name, NameError, Owner, Quorum, Standing, Token, advised_ttl,
};
pub use release::Release;
pub use surroundings::RestartGuard;
pub use tokio_util::sync::CancellationToken;
