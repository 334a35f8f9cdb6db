//! What a run proves, as a list of checks.

use crate::nemesis::checker::promise::Promise;
use crate::nemesis::{Outcome, Setting};
use std::fmt;
use std::time::Duration;

/// One claim and what speaks against it.
#[derive(Clone, Debug)]
pub struct Check {
    /// What should be so.
    pub claim: String,
    /// What was found instead; empty if it is so.
    pub against: Vec<String>,
}

/// Shorter runs cannot have seen every kind of fault.
const LONG: Duration = Duration::from_secs(45);

impl Check {
    /// Whether the claim holds.
    pub fn is_passed(&self) -> bool {
        self.against.is_empty()
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", if self.is_passed() { "ok    " } else { "FAILED" }, self.claim)?;
        self.against.iter().take(3).try_for_each(|what| write!(f, "\n        {what}"))
    }
}

impl Outcome {
    /// What must hold in every run.
    pub fn promises(&self) -> Vec<Check> {
        let claims = [
            (Promise::Exclusion, "no client held a name next to one that held it alone"),
            (Promise::Permits, "no more permits were held than the semaphore has slots"),
            (Promise::UniqueFences, "no fence was handed out twice"),
            (Promise::IncreasingFences, "every later grant had a higher fence"),
            (Promise::FinalLoss, "no lost lock was held again"),
            (Promise::NoFencedLoss, "a resource that compares fences lost no update"),
            (Promise::StableReads, "a resource that compares fences showed no reader a change"),
            (Promise::NoHolderRefused, "a resource that compares fences refused no holder"),
            (Promise::Recovery, "in the recovery phase every client got every lock"),
            (Promise::NothingLeft, "no lock was left on a server"),
        ];
        let violations = self.history.violations();
        let against = |promise| {
            let broken = violations.iter().filter(move |violation| violation.promise == promise);
            broken.map(|violation| violation.what.clone()).collect()
        };
        claims.map(|(promise, claim)| Check { claim: claim.to_owned(), against: against(promise) }).into()
    }

    /// Whether the run had enough faults and acquisitions to mean something. Nothing is asked of a
    /// short one.
    pub fn plenty(&self) -> Vec<Check> {
        if self.fault_phase < LONG {
            return Vec::new();
        }
        let missing = self.kinds.iter().filter(|fault| !self.faults.contains_key(fault));
        let wanted = self.fault_phase.as_secs() * self.acquisitions_per_minute / 60;
        let got = self.history.acquisitions() as u64;
        let few = (got < wanted).then(|| format!("only {got}"));
        let history = &self.history;
        let uses = [
            ("trying once", history.tries),
            ("adopting", history.adoptions),
            ("extending by token", history.token_extensions),
            ("releasing by force", history.forced_releases),
            ("sharing a lock", history.shared_acquisitions() as u64),
            ("sharing a lock with another client", history.readers_together),
            ("several names at once", history.set_acquisitions() as u64),
            ("a permit", history.permits() as u64),
            ("a permit next to another", history.permits_together),
            ("upgrading", history.upgrades() as u64),
            ("a refused upgrade", history.refused_upgrades),
            ("downgrading", history.downgrades() as u64),
        ];
        let unused = uses.iter().filter(|(_, count)| *count == 0);
        vec![
            Check {
                claim: "every kind of fault came".to_owned(),
                against: missing.map(|fault| format!("{fault} never came")).collect(),
            },
            Check {
                claim: "clients did all that they can".to_owned(),
                against: unused.map(|(use_, _)| format!("{use_} never came")).collect(),
            },
            Check { claim: format!("at least {wanted} acquisitions"), against: few.into_iter().collect() },
        ]
    }

    /// The numbers, line by line.
    pub fn print(&self, setting: &Setting) {
        let (history, ledger) = (&self.history, &self.ledger);
        println!("seed             {} (decides the schedule; real time is not repeatable)", setting.seed);
        println!("servers          {}", self.cluster);
        println!("clients          {} processes", setting.clients);
        println!("seconds          {}", self.fault_phase.as_secs());
        println!("acquisitions     {}", history.acquisitions());
        println!("... shared       {}", history.shared_acquisitions());
        println!("... of 2 names   {}", history.set_acquisitions());
        println!("... permits      {}", history.permits());
        println!("readers at once  {} times two clients shared a name", history.readers_together);
        println!("permits at once  {} granted while another was held", history.permits_together);
        println!("upgrades         {}, and {} refused", history.upgrades(), history.refused_upgrades);
        println!("downgrades       {}", history.downgrades());
        println!("refused          {}", history.refusals);
        println!("extensions       {}", history.extensions);
        println!("tries            {} acquire calls that tried once", history.tries);
        println!("adoptions        {}", history.adoptions);
        println!("by token         {} extensions", history.token_extensions);
        println!("forced releases  {}", history.forced_releases);
        println!("locks lost       {}", history.losses);
        println!("late writes      {} by clients whose lock was over", history.late_writes);
        println!(
            "updates lost     {} of {} without fences at the resource",
            ledger.lost_updates, ledger.plain_writes
        );
        println!(
            "updates lost     {} of {} with fences at the resource",
            ledger.fenced_losses.len(),
            ledger.fenced_writes
        );
        println!("reads changed    {} under readers without fences at the resource", history.changed_reads);
        println!("uses refused     {} by fences at the resource", history.fenced_off);
        println!("double holds     {} while a server had forgotten unseen (not promised)", history.excused);
        println!("double holds     {} after a forced release (not promised)", history.forced_double_holds);
        for fault in &self.kinds {
            println!("fault {fault:<18} {}", self.faults.get(fault).copied().unwrap_or_default());
        }
        println!("violations       {}", history.violations().len());
    }
}
