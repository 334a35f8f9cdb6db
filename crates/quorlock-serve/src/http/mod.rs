//! Listeners and connections, up to the bytes of a response.

pub(crate) mod accept;
pub(crate) mod admission;
pub(crate) mod connection;
pub(crate) mod delivery;
pub(crate) mod listen;
pub(crate) mod tls;
pub(crate) mod tracked_stream;
