//! Every answer of the sidecar, asked in this process.
#![allow(clippy::unwrap_used)]

mod access;
mod dapr;
mod documents;
mod hold;
mod kit;
mod locks;
mod overview;
mod requests;
mod tokens;
