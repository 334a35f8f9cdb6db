//! `quorlock run` as homes see it: the built program, real commands, real servers.

#![allow(clippy::unwrap_used)]

#[path = "../kit/mod.rs"]
mod kit;

mod bad_input;
mod crowds;
mod ends;
mod losing;
mod nodes;
mod processes;
mod signals;
mod terminal;
mod terms;
