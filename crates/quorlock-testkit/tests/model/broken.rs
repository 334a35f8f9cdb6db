//! Variants that are broken on purpose: the search finds what is wrong with each, so it would find
//! it in ours.

use crate::rules::{Decision, NameLoss, Rules, Voting};
use crate::search::{Outcome, search};
use crate::state::Violation;

/// Enough for every counterexample here, and little enough to fail soon without one.
const MOST_STATES: usize = 300_000;

/// Searches a case and expects one of `violations`.
fn breaks<const N: usize, const C: usize>(case: &str, rules: Rules<N, C>, violations: &[Violation]) {
    let outcome = search(case, rules.at_most(MOST_STATES));
    match outcome {
        Outcome::Broken { violation, .. } if violations.contains(&violation) => {}
        _ => panic!("{case}: {outcome:?} instead of {violations:?}"),
    }
}

#[test]
fn a_vote_that_also_takes_an_equal_counter_gives_a_fence_twice() {
    for (voting, loss) in [(Voting::Atomic, NameLoss::Any), (Voting::Native, NameLoss::Valid)] {
        let shipped = Rules::<3, 2>::shipped([1, 1], voting, loss);
        let rules = Rules { vote_is_strict: false, ..shipped };
        let case = format!("vote not strict, {voting:?}, {loss:?}");
        breaks(&case, rules, &[Violation::DuplicateFence]);
    }
}

#[test]
fn a_stamp_that_leaves_an_equal_counter_gives_a_fence_twice() {
    for loss in [NameLoss::Any, NameLoss::Valid] {
        let shipped = Rules::<3, 2>::shipped([2, 1], Voting::Native, loss);
        let rules = Rules { stamp_is_strict: false, ..shipped };
        breaks(&format!("stamp not strict, {loss:?}"), rules, &[Violation::DuplicateFence]);
    }
}

#[test]
fn a_proposal_taken_without_a_stamp_falls_behind() {
    let shipped = Rules::<3, 2>::shipped([2, 1], Voting::Native, NameLoss::Valid);
    let rules = Rules { decision: Decision::TakeProposal, ..shipped };
    breaks("no stamp", rules, &[Violation::NotAboveEarlier, Violation::HoldingOrder]);
}

#[test]
fn the_maximum_of_the_votes_without_writing_it_back_is_given_twice() {
    let shipped = Rules::<3, 3>::shipped([2, 1, 1], Voting::Atomic, NameLoss::Valid);
    let rules = Rules { decision: Decision::TakeMaximum, ..shipped };
    breaks("maximum without write-back", rules, &[Violation::DuplicateFence, Violation::NotAboveEarlier]);
}

/// Goal: without the token check, a client whose names are all gone shuts out the one that has
/// them, by a higher fence.
#[test]
fn a_stamp_that_does_not_look_at_the_token_grants_to_one_who_has_lost_the_name() {
    let shipped = Rules::<3, 2>::shipped([2, 1], Voting::Atomic, NameLoss::Any);
    let rules = Rules { stamp_checks_token: false, ..shipped };
    breaks("stamp without token check", rules, &[Violation::WithoutTheName]);
}

/// Goal: the late undo of an attempt must not meet its own token in the next one.
#[test]
fn a_token_used_again_is_undone_by_the_attempt_before() {
    let shipped = Rules::<3, 3>::shipped([1, 2, 3], Voting::Atomic, NameLoss::Valid);
    let rules = Rules { token_is_reused: true, ..shipped };
    breaks("token used again", rules, &[Violation::TwoHolders]);
}
