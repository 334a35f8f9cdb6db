//! The task that owns the socket of one server.

pub(crate) mod activity;
pub(crate) mod driver;
pub(crate) mod flush_on_drop;
pub(crate) mod handshake;
pub(crate) mod in_flight;
pub(crate) mod reply_chunks;
pub(crate) mod socket;
