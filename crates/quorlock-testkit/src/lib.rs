//! Real servers, faults and checks for quorlock's own tests.
//!
//! Everything here panics with a readable message when it cannot do its job: in a test that is the answer.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod certs;
mod clock;
mod clockshim;
mod etcd;
pub mod exposition;
mod faulty;
mod freeze;
pub mod lab;
pub mod nemesis;
mod peer;
mod port;
pub mod proxy;
mod pump;
mod resp;
mod server;
mod server_config;
mod servers;
mod spawn;
mod until;
pub mod world;

pub use certs::Certs;
pub use clock::TestClock;
pub use clockshim::ClockShim;
pub use etcd::Etcd;
pub use faulty::{Fault, FaultyNode};
pub use peer::Peer;
pub use port::Port;
pub use proxy::Proxy;
pub use resp::{Connection, Reply};
pub use server::Server;
pub use server_config::{Binary, Fsync, ServerBuilder};
pub use servers::Servers;
pub use until::{until, until_blocking, within};

/// The examples of the README are tested, too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
