//! The routes of the sidecar and their handlers.

pub(crate) mod callers;
pub(crate) mod elections;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod locks;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod overview;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod routes;
pub(crate) mod state;
