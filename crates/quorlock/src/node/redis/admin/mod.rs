//! What operators ask, on a connection of its own, never between votes.

pub(crate) mod examine;
pub(crate) mod permissions;
pub(crate) mod scan;
pub(crate) mod session;
