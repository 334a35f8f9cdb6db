//! Every answer of the sidecar, asked in this process.
#![allow(clippy::unwrap_used)]

mod access;
mod deadlines;
mod documents;
mod hold;
mod kit;
mod locks;
mod overview;
mod own;
mod requests;
mod search;
mod tokens;
