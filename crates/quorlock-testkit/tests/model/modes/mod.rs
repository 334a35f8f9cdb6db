//! Shared and exclusive holders and sets of names: clients acquire, downgrade, upgrade, extend and
//! release.
//!
//! The shipped [`Attempt`](quorlock_core::Attempt) decides an acquire and an upgrade.
//!
//! - A node admits a writer of a name if nothing is stored, and a reader if no writer is stored.
//!   Each reader has its own entry with its own end.
//! - A vote of a node for a set of names counts if the node admitted every name. It confirms the
//!   proposal if it raised the counter of every name.
//! - A client that downgrades counts as a reader before it sends the first command.
//! - A client that upgrades stays a reader until the attempt is granted. A failed upgrade is undone:
//!   each node turns the writer's entry back into a reader's.
//! - Commands of one client to one node are executed in the order in which they were sent, at any
//!   later time or never.
//! - A lease outlasts the entries that it does not count: after an extend or an upgrade, an entry on
//!   a node outside the counted majority may end at any moment.

mod broken;
mod client;
mod node;
mod plan;
mod rules;
mod shipped;
mod slots;
mod state;
mod steps;
mod timeline;
