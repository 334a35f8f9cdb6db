//! Calls to the members of an etcd cluster.

pub(crate) mod api;
pub(crate) mod cluster;
pub(crate) mod errors;
pub(crate) mod http;
pub(crate) mod json;
pub(crate) mod members;
