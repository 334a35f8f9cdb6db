//! The last events, kept for readers.

pub(crate) mod event_json;
pub(crate) mod event_log;
