//! What a client process tells the harness about the lock that it has.

use super::super::line::{Belief, ReportLine};
use super::super::monotonic::now;
use quorlock::{Event, Lease, LeaseState, LockHandle};
use std::sync::Mutex;
use std::time::Duration;

/// Tells the harness about the lock that this client has. Lines of one hold never come in the wrong order.
#[derive(Default)]
pub(crate) struct Recorder(Mutex<Option<Current>>);

struct Current {
    right: Right,
    was_lost: bool,
}

/// What the client knows its right by.
enum Right {
    Guarded(Lease),
    /// Its token, until then for sure.
    ByToken(Duration),
}

impl Right {
    fn is_held(&self) -> bool {
        match self {
            Right::Guarded(held) => held.is_held(),
            Right::ByToken(until) => now() < *until,
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Right::Guarded(held) => matches!(held.state(), LeaseState::Lost(_)),
            Right::ByToken(until) => now() >= *until,
        }
    }
}

impl Recorder {
    pub(crate) fn print(line: &ReportLine) {
        println!("{line}");
    }

    pub(crate) fn granted(&self, held: &Lease, called: Duration) {
        let mut current = self.0.lock().unwrap();
        let (name, fence, token) = (held.name().to_string(), held.fence().get(), held.token().to_string());
        Self::print(&ReportLine::Granted { name, fence, token, called, belief: Belief::of(held) });
        *current = Some(Current { right: Right::Guarded(held.clone()), was_lost: false });
    }

    pub(crate) fn adopted(&self, held: &Lease, called: Duration) {
        let mut current = self.0.lock().unwrap();
        let (name, fence, token) = (held.name().to_string(), held.fence().get(), held.token().to_string());
        Self::print(&ReportLine::Adopted { name, fence, token, called, belief: Belief::of(held) });
        *current = Some(Current { right: Right::Guarded(held.clone()), was_lost: false });
    }

    /// From here on the client goes by the token of the lock that it has.
    pub(crate) fn leased(&self, until: Duration) {
        *self.0.lock().unwrap() = Some(Current { right: Right::ByToken(until), was_lost: false });
    }

    /// The client took over a lock by its token.
    pub(crate) fn received(&self, handle: &LockHandle, called: Duration, until: Duration) {
        let (name, fence, token) =
            (handle.name().to_string(), handle.fence().get(), handle.token().to_string());
        Self::print(&ReportLine::Adopted { name, fence, token, called, belief: Belief { noted: now(), until } });
        self.leased(until);
    }

    pub(crate) fn extended_by_token(&self, until: Duration) {
        Self::print(&ReportLine::ExtendedByToken(Belief { noted: now(), until }));
        self.leased(until);
    }

    /// The library's observers are called in place: a loss is lines before anything follows from it.
    pub(crate) fn on_event(&self, event: &Event) {
        let mut current = self.0.lock().unwrap();
        let Some(current) = current.as_mut() else { return };
        let Right::Guarded(held) = &current.right else { return };
        match event {
            Event::Extended { .. } => Self::print(&ReportLine::Extended(Belief::of(held))),
            Event::Lost { .. } => {
                current.was_lost = true;
                Self::print(&ReportLine::Lost { at: now() });
            }
            _ => {}
        }
        current.check();
    }

    /// From here on others may hold the lock.
    pub(crate) fn letting_go(&self) {
        if let Some(current) = self.0.lock().unwrap().take() {
            current.check();
            Self::print(&ReportLine::LetGo { at: now(), over: current.right.is_over() });
        }
    }
}

impl Current {
    fn check(&self) {
        if self.was_lost && self.right.is_held() {
            Recorder::print(&ReportLine::HeldAfterLoss { at: now() });
        }
    }
}
