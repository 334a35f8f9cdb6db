//! Commands out, replies in, first in, first out.

pub(crate) mod fence_ttl_cache;
pub(crate) mod outbox;
pub(crate) mod pending;
pub(crate) mod release_batch;
pub(crate) mod unacked_releases;
