//! The fence protocol, model-checked: every order of events in small worlds, with the shipped
//! client's decisions.
//!
//! Run with `--nocapture` to see how many states each case has, and the counterexamples of the
//! broken variants.
#![allow(clippy::unwrap_used)]

mod broken;
mod client;
mod holds;
mod longest;
mod modes;
mod rules;
mod search;
mod shipped;
mod state;
mod steps;
mod summary;
mod timeline;
