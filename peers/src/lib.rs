//! What the orchestrator and the contestants share: the order, the outcome, and the histogram in it.

pub mod histogram;
pub mod protocol;
