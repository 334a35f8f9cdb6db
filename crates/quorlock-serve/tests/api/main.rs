//! Every response of the sidecar, requested in this process without a network.
#![allow(clippy::unwrap_used)]

mod access;
mod claims;
mod deadlines;
mod documents;
mod hold;
mod kit;
mod locks;
mod overview;
mod requests;
mod search;
mod tokens;
