//! Variants that are broken on purpose: the search finds what is wrong with each.

use super::rules::{EpochCheck, ExtendOfNothing, QuarantineClock, Rules, TTL};
use super::world::Violation;
use crate::search::{Outcome, search};

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

/// Three nodes and two clients; one node loses its memory once.
fn one_loss() -> Rules<3, 2> {
    Rules::shipped(2).losing_memory(1).without_fences()
}

#[test]
fn an_epoch_that_is_checked_on_connecting_only_lets_a_node_vote_that_forgot() {
    let rules = Rules { epoch: EpochCheck::OnConnect, ..one_loss() };
    breaks("epoch checked on connecting only", rules, &[Violation::TwoHolders]);
}

#[test]
fn an_epoch_that_is_read_before_the_vote_lets_a_node_vote_that_forgot_in_between() {
    let rules = Rules { epoch: EpochCheck::BeforeVote, ..one_loss() };
    breaks("epoch read before the vote", rules, &[Violation::TwoHolders]);
}

#[test]
fn a_repair_that_counts_as_a_vote_lets_a_node_in_quarantine_vote() {
    let rules = Rules { epoch: EpochCheck::NotForRepairs, ..one_loss() };
    breaks("repair counted as a vote", rules, &[Violation::TwoHolders]);
}

#[test]
fn a_repair_after_a_forced_release_keeps_the_lock_held() {
    let rules = Rules::<3, 1>::shipped(2).forced();
    let rules = Rules { repair_checks_mark: false, extend_checks_mark: false, ..rules };
    breaks("repair after a forced release", rules, &[Violation::HeldAfterForce]);
}

#[test]
fn an_extend_that_creates_the_lock_undoes_a_forced_release() {
    let rules = Rules::<3, 1>::shipped(2).forced();
    let rules = Rules { extend_of_nothing: ExtendOfNothing::Creates, ..rules };
    breaks("extend that creates", rules, &[Violation::HeldAfterForce]);
}

#[test]
fn an_extend_by_a_minority_outlives_the_lock_on_the_other_nodes() {
    let rules = Rules { extend_needs: Some(1), ..Rules::<3, 2>::shipped(3).without_fences() };
    breaks("extend by a minority", rules, &[Violation::TwoHolders]);
}

#[test]
fn a_quarantine_that_is_one_tick_shorter_than_a_lock_gives_it_to_two_clients() {
    let rules = Rules { quarantine: TTL - 1, ..one_loss() };
    breaks("quarantine one tick short", rules, &[Violation::TwoHolders]);
}

/// Goal: the clock tolerance in the quarantine is needed, to the tick, for fences that were lost.
#[test]
fn a_quarantine_that_does_not_cover_the_difference_of_clocks_gives_a_fence_twice() {
    let rules = Rules::<3, 2>::shipped(3).losing_memory(1).skewed();
    let rules = Rules { quarantine: rules.quarantine - 1, round_takes: 1, extends: false, ..rules };
    let wrong = [Violation::DuplicateFence, Violation::NotAboveEarlier, Violation::HoldingOrder];
    breaks("quarantine without the whole clock tolerance", rules, &wrong);
}

#[test]
fn a_quarantine_by_the_clock_of_the_server_ends_when_that_clock_jumps() {
    let rules = Rules { jumps: 1, quarantine_clock: QuarantineClock::Server, ..one_loss() };
    breaks("quarantine by the server's clock", rules, &[Violation::TwoHolders]);
}

#[test]
fn a_repair_that_is_sent_after_the_release_brings_the_lock_back() {
    let shipped = Rules::<3, 1>::shipped(2).losing_memory(1).with_late_commands();
    let rules = Rules { repair_checks_closed: false, ..shipped };
    breaks("repair after the release", rules, &[Violation::Resurrected]);
}

/// Goal: a repair must not hide the number to which another client raised the counter.
#[test]
fn a_repair_that_sets_the_counter_lowers_it() {
    let rules = Rules { repair_raises_only: false, ..Rules::<3, 2>::shipped(1) };
    breaks("repair that sets the counter", rules, &[Violation::CounterLowered]);
}
