//! Commands to write, replies to expect, and releases to send again, each in order.

pub(crate) mod fence_ttl_cache;
pub(crate) mod outbox;
pub(crate) mod pending;
pub(crate) mod release_batch;
pub(crate) mod unacked_releases;
