//! Real servers that die, forget, stop and come back, with the result that DESIGN.md promises.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod elections;
mod forgetting;
mod outages;
mod primitives;
mod refusing;
mod runtimes;
mod setting;
mod zones;
