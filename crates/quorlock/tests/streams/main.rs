//! Servers that say what no server should, in the middle of a stream or from its start.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod answers;
mod forger;
#[path = "../net/mod.rs"]
mod net;
mod nonsense;
