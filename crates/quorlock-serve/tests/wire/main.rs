//! Connections that are slow, broken, too many, or end at the wrong moment.
#![allow(clippy::unwrap_used)]

mod bounds;
mod kit;
mod vanishing;
