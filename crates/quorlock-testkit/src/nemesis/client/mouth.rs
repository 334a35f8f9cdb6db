//! What a client process tells the harness about the lock that it has.

use super::super::line::{Belief, Line};
use super::super::stopwatch::now;
use quorlock::{Event, Lease, LeaseState, LockHandle};
use std::sync::Mutex;
use std::time::Duration;

/// Tells the harness about the lock that this client has. Lines of one hold never come in the wrong order.
#[derive(Default)]
pub(super) struct Mouth(Mutex<Option<Current>>);

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

impl Mouth {
    pub(super) fn say(line: &Line) {
        println!("{line}");
    }

    pub(super) fn granted(&self, held: &Lease, called: Duration) {
        let mut current = self.0.lock().unwrap();
        let (name, fence, token) = (held.name().to_string(), held.fence().get(), held.token().to_string());
        Self::say(&Line::Granted { name, fence, token, called, belief: Belief::of(held) });
        *current = Some(Current { right: Right::Guarded(held.clone()), was_lost: false });
    }

    pub(super) fn adopted(&self, held: &Lease, called: Duration) {
        let mut current = self.0.lock().unwrap();
        let (name, fence, token) = (held.name().to_string(), held.fence().get(), held.token().to_string());
        Self::say(&Line::Adopted { name, fence, token, called, belief: Belief::of(held) });
        *current = Some(Current { right: Right::Guarded(held.clone()), was_lost: false });
    }

    /// From here on the client goes by the token of the lock that it has.
    pub(super) fn leased(&self, until: Duration) {
        *self.0.lock().unwrap() = Some(Current { right: Right::ByToken(until), was_lost: false });
    }

    /// The client took over a lock by its token.
    pub(super) fn received(&self, handle: &LockHandle, called: Duration, until: Duration) {
        let (name, fence, token) =
            (handle.name().to_string(), handle.fence().get(), handle.token().to_string());
        Self::say(&Line::Adopted { name, fence, token, called, belief: Belief { noted: now(), until } });
        self.leased(until);
    }

    pub(super) fn extended_by_token(&self, until: Duration) {
        Self::say(&Line::ExtendedByToken(Belief { noted: now(), until }));
        self.leased(until);
    }

    /// The library's observers are called in place: a loss is told before anything follows from it.
    pub(super) fn overhear(&self, event: &Event) {
        let mut current = self.0.lock().unwrap();
        let Some(current) = current.as_mut() else { return };
        let Right::Guarded(held) = &current.right else { return };
        match event {
            Event::Extended { .. } => Self::say(&Line::Extended(Belief::of(held))),
            Event::Lost { .. } => {
                current.was_lost = true;
                Self::say(&Line::Lost { at: now() });
            }
            _ => {}
        }
        current.check();
    }

    /// From here on others may hold the lock.
    pub(super) fn letting_go(&self) {
        if let Some(current) = self.0.lock().unwrap().take() {
            current.check();
            Self::say(&Line::LetGo { at: now(), over: current.right.is_over() });
        }
    }
}

impl Current {
    fn check(&self) {
        if self.was_lost && self.right.is_held() {
            Mouth::say(&Line::Undead { at: now() });
        }
    }
}
