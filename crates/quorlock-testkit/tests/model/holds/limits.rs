//! What an earlier protocol did not promise: each of its rules, at which the search finds two holders
//! or a lock that outlives its forced release, next to the rule as shipped, which it finds safe.

use super::rules::{Rules, TTL};
use super::world::Violation;
use crate::search::{Outcome, search};

const MOST_STATES: usize = 6_000_000;

fn finds<const N: usize, const C: usize>(case: &str, rules: Rules<N, C>, violation: Violation) {
    let outcome = search(case, rules.at_most(MOST_STATES));
    assert!(matches!(outcome, Outcome::Broken { violation: found, .. } if found == violation), "{outcome}");
}

fn is_safe<const N: usize, const C: usize>(case: &str, rules: Rules<N, C>) {
    let outcome = search(case, rules);
    assert!(matches!(outcome, Outcome::Safe { .. }), "{case}: {outcome}");
}

/// Votes of an attempt may be a whole tick apart, much more than the vote window.
fn slow_votes() -> Rules<3, 2> {
    Rules { round_takes: 1, ..Rules::shipped(2).losing_memory(1).without_fences() }
}

/// Votes of an attempt may be one vote window apart: a lock lasts four of them.
fn short_ticks() -> Rules<3, 2> {
    Rules::shipped(4).in_short_ticks().losing_memory(1).without_fences()
}

/// Goal: an attempt counts the vote of a node. Then the node forgets it, the holder of before
/// repairs and extends there, and its lock expires on another node, which votes for the attempt.
#[test]
#[ignore = "long: run with `--release -- --ignored --nocapture`"]
fn votes_that_are_far_apart_count_only_if_the_voters_confirm_them() {
    let rules = Rules { confirms_slow_votes: false, ..slow_votes() };
    finds("votes far apart count together", rules, Violation::TwoHolders);
    is_safe("votes far apart are confirmed", slow_votes());
}

/// Goal: the same within one vote window, if the holder may extend until its deadline.
#[test]
#[ignore = "long: run with `--release -- --ignored --nocapture`"]
fn a_lock_is_extended_one_vote_window_before_it_expires_anywhere() {
    let rules = Rules { extends_in_time: false, ..short_ticks() };
    finds("extends until the deadline", rules, Violation::TwoHolders);
    is_safe("extends until one vote window before the deadline", short_ticks());
}

/// Goal: a vote is a plain SET, which does not see that its lock was released by force already.
#[test]
fn a_vote_that_arrives_after_the_forced_release_of_its_lock_does_not_keep_it_held() {
    let rules = Rules::<3, 1>::shipped(2).forced();
    let unchecked = Rules { extend_checks_mark: false, ..rules };
    finds("extend after a forced release", unchecked, Violation::HeldAfterForce);
    is_safe("an extend checks the mark", rules);
}

/// Goal: a forced release that reaches nodes at different times, at most one longest ttl apart, is
/// remembered for two. A lock may be extended until the release reaches the last node.
#[test]
fn a_forced_release_is_remembered_until_it_has_reached_every_node_and_the_lease_is_over() {
    let rules = Rules { force_takes: TTL, ..Rules::<3, 1>::shipped(2 * TTL + 1).forced() };
    let forgotten = Rules { mark_lasts: 2 * TTL - 1, ..rules };
    finds("forced release remembered one tick too shortly", forgotten, Violation::HeldAfterForce);
    is_safe("forced release remembered for two longest ttls", rules);
}
