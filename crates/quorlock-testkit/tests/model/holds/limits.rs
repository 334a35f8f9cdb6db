//! Where the protocol as shipped reaches its limits: each is a case that the search breaks, and the
//! change that would lift it.

use super::rules::{Rules, TTL};
use super::world::Violation;
use crate::search::{Outcome, search};

const MOST_STATES: usize = 300_000;

fn finds<const N: usize, const C: usize>(case: &str, rules: Rules<N, C>, violation: Violation) {
    let outcome = search(case, rules.at_most(MOST_STATES));
    assert!(matches!(outcome, Outcome::Broken { violation: found, .. } if found == violation), "{outcome}");
}

fn is_safe<const N: usize, const C: usize>(case: &str, rules: Rules<N, C>) {
    let outcome = search(case, rules);
    assert!(matches!(outcome, Outcome::Safe { .. }), "{case}: {outcome}");
}

/// Rounds that last as long as the time between the end of a lease and the expiry on the nodes.
fn long_rounds() -> Rules<3, 2> {
    Rules { round_takes: 1, ..Rules::shipped(2).losing_memory(1).without_fences() }
}

/// Goal: an attempt counts the vote of a node. Then the node forgets it, the holder of before
/// repairs and extends there, and its lock expires on another node, which votes for the attempt.
///
/// That takes a node timeout above the drift allowance (`ttl * drift + 2 ms`), because all votes of
/// an attempt are heard within one node timeout.
#[test]
#[ignore = "long: run with `--release -- --ignored --nocapture`"]
fn a_vote_that_outlives_the_memory_of_its_node_needs_rounds_as_long_as_the_drift_allowance() {
    finds("rounds as long as the drift allowance", long_rounds(), Violation::TwoHolders);
    let lifted = Rules { quarantined_extend: false, ..long_rounds() };
    is_safe("the same, and extends on a node in quarantine do not count", lifted);
}

/// Goal: a vote is a plain SET, which does not see that its lock was released by force already.
#[test]
fn a_vote_that_arrives_after_the_forced_release_of_its_lock_keeps_it_held() {
    let rules = Rules { votes_outlive_force: true, ..Rules::<3, 1>::shipped(2).forced() };
    finds("vote after the forced release", rules, Violation::HeldAfterForce);
}

/// Goal: a node remembers a forced release for one longest ttl, counted from its own. A lock of that
/// ttl may be extended until the release reaches the last node.
#[test]
fn a_forced_release_that_takes_time_needs_to_be_remembered_for_that_time_longer() {
    let rules = Rules { force_takes: 1, ..Rules::<3, 1>::shipped(3).forced() };
    finds("forced release over one tick", rules, Violation::HeldAfterForce);
    let lifted = Rules { mark_lasts: TTL + 1, ..rules };
    is_safe("the same, remembered for one tick longer", lifted);
}
