//! Releases a lock whose grant never reached its caller.

use crate::sessions::Sessions;
use quorlock::{Name, Token};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The grant that one connection has still to deliver. Responses are sent one after another, so there is
/// one at most.
#[derive(Debug, Default)]
pub(crate) struct Delivery(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    granted: Option<Undelivered>,
    /// Whether a part of the response has been written.
    has_begun: bool,
    /// A grant that was written. The end of the connection will show whether the caller read it.
    written: Option<Undelivered>,
}

/// A lease that its caller does not know of yet. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Undelivered {
    sessions: Arc<Sessions>,
    lease: Option<(Name, Token)>,
}

impl Undelivered {
    pub(crate) fn new(sessions: Arc<Sessions>, name: Name, token: Token) -> Self {
        Self { sessions, lease: Some((name, token)) }
    }

    /// The caller has it.
    fn confirm(mut self) {
        self.lease = None;
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        if let Some((name, token)) = self.lease.take() {
            // A dropped guard releases its lock.
            drop(self.sessions.remove(&name, token));
        }
    }
}

impl Delivery {
    /// Tracks `granted`, which the next response delivers.
    pub(crate) fn track(&self, granted: Undelivered) {
        let mut state = self.state();
        state.granted = Some(granted);
        state.has_begun = false;
    }

    /// Whether a response that grants a lease is about to be written.
    pub(crate) fn is_pending(&self) -> bool {
        let state = self.state();
        state.granted.is_some() && !state.has_begun
    }

    /// A part of the response was written.
    pub(crate) fn on_write(&self) {
        self.state().has_begun = true;
    }

    /// All that was to be written has been handed to the system. `reset_means_unread` if a reset of the
    /// connection will prove that the caller did not read it.
    pub(crate) fn on_flush(&self, reset_means_unread: bool) {
        let mut state = self.state();
        if !state.has_begun {
            return;
        }
        let Some(granted) = state.granted.take() else { return };
        if reset_means_unread {
            confirm(state.written.replace(granted));
        } else {
            granted.confirm();
        }
    }

    /// The caller sent more, or closed the connection: it has read what was written.
    pub(crate) fn on_read(&self) {
        confirm(self.state().written.take());
    }

    /// The caller reset the connection without having read what was written.
    pub(crate) fn on_reset(&self) {
        let unread = self.state().written.take();
        drop(unread);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Delivery {
    /// The sidecar closed the connection first: the caller can still read what was written.
    fn drop(&mut self) {
        self.on_read();
    }
}

fn confirm(written: Option<Undelivered>) {
    if let Some(written) = written {
        written.confirm();
    }
}
