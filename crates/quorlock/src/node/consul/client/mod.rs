//! Calls to the agents of a Consul cluster.

pub(crate) mod api;
pub(crate) mod cluster;
pub(crate) mod errors;
pub(crate) mod http;
pub(crate) mod txn;
