//! Connections that are slow, broken, too many, or end at the wrong moment.
#![allow(clippy::unwrap_used)]

mod audit;
mod bounds;
mod kit;
mod vanishing;
