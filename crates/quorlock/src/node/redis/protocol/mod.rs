//! Bytes and their meaning: no state, no IO.

pub(crate) mod commands;
pub(crate) mod compare_and_delete;
pub(crate) mod encode;
pub(crate) mod replies;
pub(crate) mod resp;
pub(crate) mod scripts;
pub(crate) mod server_errors;
pub(crate) mod server_info;
pub(crate) mod verify;
