//! The life of a held lock in ticks of time: votes, extends, repairs, expiry, releases by the
//! holder and by force, on nodes that lose their memory.
//!
//! The shipped [`Attempt`](quorlock_core::Attempt) decides an acquire,
//! [`Tally`](quorlock_core::Tally) counts an extend, and
//! [`LeaseTerms`](quorlock_core::LeaseTerms) says until when a lock is held. Nodes follow the
//! scripts in `crates/quorlock/src/node/redis/protocol/lua`.
//!
//! - A lock lasts two ticks. Clocks of clients and nodes run at the same rate (T1 and the drift
//!   are arithmetic of `LeaseTerms`, tested there).
//! - Commands of one client to one node arrive in the order in which they were sent, at any later
//!   time or never. A client hears the answer when the command is executed, or has given up
//!   waiting for it before.
//! - A node may lose its memory at any moment, even between the SET of a vote and the reading of
//!   the epoch behind it. Any nodes may, all of them included: only the number of losses is
//!   bounded.
//! - Each client makes one attempt: another attempt, with its own token, is another client.

mod broken;
mod client;
mod limits;
mod node;
mod rules;
mod shipped;
mod steps;
mod timeline;
mod world;
