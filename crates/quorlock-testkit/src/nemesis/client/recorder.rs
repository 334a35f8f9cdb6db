//! Reports to the harness what a client does with its lock.

use crate::nemesis::client::report_line::{Belief, Grant, Origin, ReportLine};
use crate::nemesis::monotonic::now;
use crate::nemesis::resource::access::AccessReport;
use quorlock::{Event, Lease, LeaseState, LockHandle, Mode};
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

    /// The client has a lock by a call that began at `called`.
    pub(crate) fn holds(&self, origin: Origin, held: &Lease, called: Duration) {
        let mut current = self.0.lock().unwrap();
        Self::print(&ReportLine::Holds(origin, Grant::of(held, called)));
        let was_lost = origin.changes_mode() && current.as_ref().is_some_and(|before| before.was_lost);
        let after = Current { claim: Claim::Guarded(held.clone()), was_lost };
        after.check();
        *current = Some(after);
    }

    /// From here on others may share the lock.
    pub(crate) fn downgrading(&self, held: &Lease) {
        let current = self.0.lock().unwrap();
        if current.is_some() {
            let grant = Grant { mode: Mode::Shared, ..Grant::of(held, now()) };
            Self::print(&ReportLine::Holds(Origin::Downgraded, grant));
        }
    }

    /// From here on the client continues with the token of its lock.
    pub(crate) fn continued_by_token(&self, until: Duration) {
        *self.0.lock().unwrap() = Some(Current { claim: Claim::ByToken(until), was_lost: false });
    }

    /// The client accepted a lock by its token.
    pub(crate) fn received(&self, handle: &LockHandle, called: Duration, until: Duration) {
        let names = handle.names().iter().map(ToString::to_string).collect();
        let (mode, fence, token) = (handle.mode(), handle.fence().get(), handle.token().to_string());
        let belief = Belief { noted: now(), until };
        let grant = Grant { names, mode, fence, token, called, belief };
        Self::print(&ReportLine::Holds(Origin::Adopted, grant));
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
            // One line for all names that are held together.
            Event::Extended { name, .. } if *name == held.name().topic() => {
                Self::print(&ReportLine::Extended(Belief::of(held)));
            }
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

impl Grant {
    /// What the client has right now.
    fn of(held: &Lease, called: Duration) -> Self {
        Self {
            names: held.names().iter().map(ToString::to_string).collect(),
            mode: held.mode(),
            fence: held.fence().get(),
            token: held.token().to_string(),
            called,
            belief: Belief::of(held),
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
