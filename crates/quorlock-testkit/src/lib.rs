//! Real servers, faults and checks for quorlock's own tests.
//!
//! Everything here panics with a readable message when it cannot do its job: in a test that is the
//! answer.
//!
//! # Layout
//! A folder uses only the folders above it.
//!
//! | folder | job |
//! |---|---|
//! | [`eventually`] | waiting for a condition instead of sleeping |
//! | `rng` | randomness that a seed repeats |
//! | [`layout`] | the check that imports of a crate point one way |
//! | [`exposition`] | reading the text that Prometheus scrapes |
//! | [`operations`] | the operations of a history, as JSON lines for another checker |
//! | `processes` | child processes: starting, stopping (SIGSTOP), ports and clocks, other Redlock clients |
//! | `servers` | real servers on loopback: Redis, Valkey, etcd, Consul, ZooKeeper and PostgreSQL |
//! | `faults` | what a single test breaks: a faulty node, a fault proxy, a test clock |
//! | [`simulator`] | the shipped lock on simulated servers, networks and clocks, on a seeded schedule |
//! | [`nemesis`] | the shipped lock on real servers, in real client processes, with faults (Jepsen's word) |
//! | [`schemes`] | other ways to lock, and what each breaks |
//!
//! [`simulator`] and [`nemesis`] are built alike: clients that use locks, faults that disturb them,
//! a history of what happened, and a checker that compares the history with the promises.
//!
//! Binaries: `sim` runs [`simulator`], `nemesis` runs [`nemesis`], `lab` runs [`schemes`],
//! `show-clocks` helps to test [`ClockShim`].

#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod eventually;
pub mod exposition;
mod faults;
pub mod layout;
pub mod nemesis;
pub mod operations;
mod processes;
mod rng;
pub mod schemes;
mod servers;
pub mod simulator;

pub use eventually::{until, until_blocking, within};
pub use faults::faulty_node::{Fault, FaultyNode};
pub use faults::proxy::{self, Proxy};
pub use faults::test_clock::TestClock;
pub use processes::clockshim::ClockShim;
pub use processes::peer::Peer;
pub use processes::port::Port;
pub use servers::Servers;
pub use servers::builder::{Binary, Fsync, ServerBuilder};
pub use servers::certs::Certs;
pub use servers::connection::{Connection, Reply};
pub use servers::consul::Consul;
pub use servers::etcd::{Etcd, EtcdVersion};
pub use servers::init::{init_nodes, init_nodes_blocking};
pub use servers::postgres::{PgBouncer, Postgres};
pub use servers::server::Server;
pub use servers::zookeeper::ZooKeeper;

/// The examples of the README are tested, too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
