//! Every response of the sidecar, requested in this process without a network.
#![allow(clippy::unwrap_used)]

mod access;
mod claims;
mod deadlines;
mod documents;
mod elections;
mod hold;
mod kit;
mod locks;
mod overview;
mod permits;
mod requests;
mod search;
mod shared;
mod together;
mod tokens;
