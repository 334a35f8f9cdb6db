//! The sidecar as it runs: the real program, real servers, and curl.
#![allow(clippy::unwrap_used)]

mod client;
mod end_to_end;
#[path = "../harness/mod.rs"]
mod harness;
mod logs;
mod outages;
mod secrets;
mod shutdown;
mod startup;
mod tls;
