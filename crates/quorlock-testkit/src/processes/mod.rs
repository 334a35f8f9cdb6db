//! Child processes of a test: how they start and stop, their ports and their clocks.

pub(crate) mod clockshim;
pub(crate) mod peer;
pub(crate) mod port;
pub(crate) mod sigstop;
pub(crate) mod spawn;
