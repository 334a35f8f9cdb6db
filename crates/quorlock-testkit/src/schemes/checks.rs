//! What a comparison of the schemes must show, or it proves nothing.

use crate::schemes::{Finding, Promotion, Scheme, TTL, Tally};

/// One expectation.
#[derive(Clone, Debug)]
pub struct Check {
    /// What is expected.
    pub claim: String,
    /// Whether it was seen.
    pub holds: bool,
}

/// Each flawed scheme shows its flaw, and those without one do not.
pub fn checks(findings: &[Finding], promotions: &[Promotion]) -> Vec<Check> {
    let of_schemes = findings.iter().flat_map(|finding| of_scheme(finding.scheme, &finding.tally));
    of_schemes.chain(of_promotions(promotions)).collect()
}

fn of_scheme(scheme: Scheme, tally: &Tally) -> Vec<Check> {
    let claim = |what: &str, holds| Check { claim: format!("{scheme}: {what}"), holds };
    let shows_double_holds = claim("shows double holds", tally.double_holds > 0);
    let no_double_hold = claim("shows no double hold", tally.double_holds == 0);
    let no_deadlock = claim("shows no deadlock", tally.deadlocks == 0);
    let loses_updates = claim("loses updates after a pause", tally.lost_updates > 0);
    match scheme {
        Scheme::Optimistic => vec![
            claim("loses no update", tally.lost_updates == 0),
            claim("gives up under contention", tally.gave_up > 0),
        ],
        Scheme::SetnxExpire => vec![claim("shows deadlocks", tally.deadlocks > 0)],
        Scheme::SetnxGetset | Scheme::PlainDel | Scheme::GetThenDel | Scheme::Failover | Scheme::Redlock => {
            vec![shows_double_holds, no_deadlock]
        }
        Scheme::DelayedFailover | Scheme::GuardedRedlock => vec![no_double_hold, no_deadlock, loses_updates],
        Scheme::Quorlock => vec![
            no_double_hold,
            no_deadlock,
            claim("loses no update after fencing", tally.lost_when_fenced == 0),
            claim("would lose updates without fencing", tally.lost_updates > 0),
        ],
    }
}

/// A single delay just below the ttl may show no double hold by chance: those too short are checked
/// together.
fn of_promotions(promotions: &[Promotion]) -> [Check; 2] {
    let (late, early): (Vec<_>, Vec<_>) = promotions.iter().partition(|promotion| promotion.delay >= TTL);
    let double_holds =
        |of: &[&Promotion]| of.iter().map(|promotion| promotion.tally.double_holds).sum::<u64>();
    let claim = |claim: &str, holds| Check { claim: claim.to_owned(), holds };
    [
        claim("promotion earlier than the ttl: double holds", double_holds(&early) > 0),
        claim("promotion after the ttl: no double hold", double_holds(&late) == 0),
    ]
}
