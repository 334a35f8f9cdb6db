//! Real servers, faults and checks for quorlock's own tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod clock;
mod faulty;

pub use clock::TestClock;
pub use faulty::{Fault, FaultyNode};
