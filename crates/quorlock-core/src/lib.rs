//! The pure part of quorlock: what is true about a lock, without IO, clock or randomness of its own.
//!
//! Everything here is a function of its arguments. Time comes in as [`Moment`] and [`Wall`], randomness as
//! bytes or numbers, replies of nodes as values. The `quorlock` crate supplies the world around it.

pub mod attempt;
pub mod backoff;
pub mod fence;
pub mod hash;
pub mod lease;
pub mod mode;
pub mod name;
pub mod node_set;
pub mod owner;
pub mod tally;
pub mod text;
pub mod time;
pub mod token;
pub mod ttl;

pub use attempt::{Attempt, Ballot, Step};
pub use backoff::Backoff;
pub use fence::{Fence, FenceClock};
pub use lease::{LeaseState, LeaseTerms, LossReason};
pub use mode::Mode;
pub use name::set::{NameSet, NameSetError};
pub use name::{Name, NameError};
pub use node_set::NodeSet;
pub use owner::{Label, Owner, Signature, StoredLock};
pub use tally::{Quorum, QuorumError, Tally, Verdict, Vote};
pub use text::printable;
pub use time::{Moment, Rounded, Wall};
pub use token::{Token, TokenError};
pub use ttl::{Drift, DriftError, Ttl, TtlError, advised_ttl};
