//! Real servers, faults and checks for quorlock's own tests.
//!
//! Everything here panics with a readable message when it cannot do its job: in a test that is the answer.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod certs;
mod clockshim;
mod peer;
mod port;
mod proxy;
mod pump;
mod resp;
mod server;
mod server_config;
mod servers;
mod spawn;
mod until;

pub use certs::Certs;
pub use clockshim::ClockShim;
pub use peer::Peer;
pub use port::Port;
pub use proxy::{Fault, Proxy};
pub use resp::{Connection, Reply};
pub use server::Server;
pub use server_config::{Binary, Fsync, ServerBuilder};
pub use servers::Servers;
pub use until::{until, until_blocking};
