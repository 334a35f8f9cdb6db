//! Values next to the lock: writes that an outdated holder cannot make.

pub mod fenced;
pub mod optimistic;
