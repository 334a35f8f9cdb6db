//! What a user of the lock relies on, on nodes that can be broken and with time that is paused.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod acquiring;
mod clocks;
mod fences;
mod keeping;
mod listing;
mod losing;
mod neighbours;
mod releasing;
mod slow_votes;
mod splits;
mod tokens;
mod using;
mod waiting;
mod world;
mod young;
