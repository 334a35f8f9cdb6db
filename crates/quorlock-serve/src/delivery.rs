//! Makes sure that a lock whose grant never reached its caller is released.

use crate::app::App;
use quorlock::{Name, Token};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What one connection has still to deliver. Answers go out one after another, so there is one at most.
#[derive(Debug, Default)]
pub(crate) struct Delivery(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    granted: Option<Undelivered>,
    /// Whether a part of the answer has been written.
    has_begun: bool,
    /// A grant that was written, and of which the caller's end of the connection will tell whether it was read.
    written: Option<Undelivered>,
}

/// A lease that its caller does not know of yet. Dropped, the lock is released.
#[derive(Debug)]
pub(crate) struct Undelivered {
    app: Arc<App>,
    lease: Option<(Name, Token)>,
}

impl Undelivered {
    pub(crate) fn new(app: Arc<App>, name: Name, token: Token) -> Self {
        Self { app, lease: Some((name, token)) }
    }

    /// The caller has it.
    pub(crate) fn confirm(mut self) {
        self.lease = None;
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        if let Some((name, token)) = self.lease.take() {
            // A dropped guard releases its lock.
            drop(self.app.sessions.take(&name, token));
        }
    }
}

impl Delivery {
    /// The answer that comes next grants this lease.
    pub(crate) fn expect(&self, granted: Undelivered) {
        let mut state = self.state();
        state.granted = Some(granted);
        state.has_begun = false;
    }

    /// Whether an answer that grants a lease is about to be written.
    pub(crate) fn is_pending(&self) -> bool {
        let state = self.state();
        state.granted.is_some() && !state.has_begun
    }

    /// A part of the answer was written.
    pub(crate) fn note_written(&self) {
        self.state().has_begun = true;
    }

    /// All that was to be written has been handed to the system. `tells_unread` if a reset will mean that it was not read.
    pub(crate) fn note_flushed(&self, tells_unread: bool) {
        let mut state = self.state();
        if !state.has_begun {
            return;
        }
        let Some(granted) = state.granted.take() else { return };
        if tells_unread {
            confirm(state.written.replace(granted));
        } else {
            granted.confirm();
        }
    }

    /// The caller sent more, or closed the connection: it has read what was written.
    pub(crate) fn note_heard(&self) {
        confirm(self.state().written.take());
    }

    /// The caller ended without having read what was written.
    pub(crate) fn note_unread(&self) {
        let unread = self.state().written.take();
        drop(unread);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Delivery {
    /// We hung up first: the caller can read what was written.
    fn drop(&mut self) {
        self.note_heard();
    }
}

fn confirm(written: Option<Undelivered>) {
    if let Some(written) = written {
        written.confirm();
    }
}
