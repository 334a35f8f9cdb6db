//! Reports to the harness what a client does with its lock.

use crate::nemesis::client::report_line::{Belief, ReportLine};
use crate::nemesis::monotonic::now;
use crate::nemesis::resource::access::AccessReport;
use quorlock::{Event, Lease, LeaseState, LockHandle};
use std::sync::Mutex;
use std::time::Duration;

/// Reports on the lock that this client has. The lines of one hold are printed in order.
#[derive(Default)]
pub(crate) struct Recorder(Mutex<Option<Current>>);

struct Current {
    claim: Claim,
    was_lost: bool,
}

/// How the client has the lock.
enum Claim {
    Guarded(Lease),
    /// Its token, until then for sure.
    ByToken(Duration),
}

impl Claim {
    fn is_held(&self) -> bool {
        match self {
            Claim::Guarded(held) => held.is_held(),
            Claim::ByToken(until) => now() < *until,
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Claim::Guarded(held) => matches!(held.state(), LeaseState::Lost(_)),
            Claim::ByToken(until) => now() >= *until,
        }
    }
}

impl Recorder {
    pub(crate) fn print(line: &ReportLine) {
        println!("{line}");
    }

    pub(crate) fn accesses(report: AccessReport<'_>) {
        Self::print(&match report {
            AccessReport::Begins(access) => ReportLine::Accessing { access: access.clone(), at: now() },
            AccessReport::Ends(answer) => ReportLine::Accessed { answer: answer.clone(), at: now() },
        });
    }

    pub(crate) fn granted(&self, held: &Lease, called: Duration) {
        let mut current = self.0.lock().unwrap();
        let (name, fence, token) = (held.name().to_string(), held.fence().get(), held.token().to_string());
        Self::print(&ReportLine::Granted { name, fence, token, called, belief: Belief::of(held) });
        *current = Some(Current { claim: Claim::Guarded(held.clone()), was_lost: false });
    }

    pub(crate) fn adopted(&self, held: &Lease, called: Duration) {
        let mut current = self.0.lock().unwrap();
        let (name, fence, token) = (held.name().to_string(), held.fence().get(), held.token().to_string());
        Self::print(&ReportLine::Adopted { name, fence, token, called, belief: Belief::of(held) });
        *current = Some(Current { claim: Claim::Guarded(held.clone()), was_lost: false });
    }

    /// From here on the client continues with the token of its lock.
    pub(crate) fn continued_by_token(&self, until: Duration) {
        *self.0.lock().unwrap() = Some(Current { claim: Claim::ByToken(until), was_lost: false });
    }

    /// The client accepted a lock by its token.
    pub(crate) fn received(&self, handle: &LockHandle, called: Duration, until: Duration) {
        let (name, fence, token) =
            (handle.name().to_string(), handle.fence().get(), handle.token().to_string());
        Self::print(&ReportLine::Adopted {
            name,
            fence,
            token,
            called,
            belief: Belief { noted: now(), until },
        });
        self.continued_by_token(until);
    }

    pub(crate) fn extended_by_token(&self, until: Duration) {
        Self::print(&ReportLine::ExtendedByToken(Belief { noted: now(), until }));
        self.continued_by_token(until);
    }

    /// The library calls its observers in place, so a loss is reported before the client acts on
    /// it.
    pub(crate) fn on_event(&self, event: &Event) {
        let mut current = self.0.lock().unwrap();
        let Some(current) = current.as_mut() else { return };
        let Claim::Guarded(held) = &current.claim else { return };
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
    pub(crate) fn releasing(&self) {
        if let Some(current) = self.0.lock().unwrap().take() {
            current.check();
            Self::print(&ReportLine::Releasing { at: now(), over: current.claim.is_over() });
        }
    }
}

impl Current {
    fn check(&self) {
        if self.was_lost && self.claim.is_held() {
            Recorder::print(&ReportLine::HeldAfterLoss { at: now() });
        }
    }
}
