//! Byte streams to servers: TCP, TLS and unix sockets.

pub(crate) mod stream;
pub(crate) mod tls;
