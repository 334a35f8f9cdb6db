//! A mutex without poisoning: a panic in one task must not take every lock of a program with it.

use std::sync::{self, MutexGuard, PoisonError};

/// `std::sync::Mutex`, except that a panic while it is locked does not poison it.
///
/// No section that holds one of these leaves its value half changed: they are short and call no code of
/// the user.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
