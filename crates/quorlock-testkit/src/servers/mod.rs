//! Real servers on loopback: one, several, or the members of a cluster.

pub(crate) mod builder;
pub(crate) mod certs;
pub(crate) mod connection;
pub(crate) mod consul;
mod directory;
pub(crate) mod etcd;
pub(crate) mod init;
pub(crate) mod postgres;
pub(crate) mod server;
pub(crate) mod zookeeper;

use crate::servers::builder::ServerBuilder;
use crate::servers::server::Server;
use std::ops::{Deref, DerefMut};
use std::thread;

/// Independent servers. Behaves as a slice of [`Server`].
#[derive(Debug)]
pub struct Servers(Vec<Server>);

impl Servers {
    /// Starts `count` Redis servers at once.
    pub fn start(count: usize) -> Self {
        Self::start_like(&Server::builder(), count)
    }

    /// Starts `count` servers with the same options at once.
    pub fn start_like(options: &ServerBuilder, count: usize) -> Self {
        Self::start_all(vec![options.clone(); count])
    }

    /// Starts servers with different options at once.
    pub fn start_all(options: Vec<ServerBuilder>) -> Self {
        thread::scope(|scope| {
            let starting: Vec<_> =
                options.into_iter().map(|options| scope.spawn(|| options.start())).collect();
            Self(starting.into_iter().map(|it| it.join().unwrap()).collect())
        })
    }

    /// Their addresses, in order.
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(Server::url).collect()
    }
}

impl Deref for Servers {
    type Target = [Server];

    fn deref(&self) -> &[Server] {
        &self.0
    }
}

impl DerefMut for Servers {
    fn deref_mut(&mut self) -> &mut [Server] {
        &mut self.0
    }
}
