//! The sidecar as it runs: the real program, real servers, and curl.
#![allow(clippy::unwrap_used)]

mod client;
mod ends;
mod journeys;
#[path = "../kit/mod.rs"]
mod kit;
mod logs;
mod outages;
mod secrets;
mod starts;
mod tls;
