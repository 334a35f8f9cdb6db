//! The protocol as shipped keeps its promises in every world that is reached.

use super::rules::Rules;
use crate::search::{Outcome, search};

/// Searches all states of a case.
fn exhaust<const N: usize, const C: usize>(case: &str, rules: Rules<N, C>) {
    let outcome = search(case, rules);
    assert!(matches!(outcome, Outcome::Safe { .. }), "{case}: {outcome:?}");
}

/// Searches the nearest `most` states of a case.
fn sample<const N: usize, const C: usize>(case: &str, rules: Rules<N, C>, most: usize) {
    let outcome = search(case, rules.at_most(most));
    assert!(!matches!(outcome, Outcome::Broken { .. }), "{case}: {outcome:?}");
}

/// Three nodes and two clients.
fn two_clients(horizon: u8) -> Rules<3, 2> {
    Rules::shipped(horizon)
}

/// As `two_clients`, where a round may last a whole tick; holders do not extend.
fn skewed(horizon: u8) -> Rules<3, 2> {
    Rules { round_takes: 1, extends: false, ..two_clients(horizon).losing_memory(1).skewed() }
}

#[test]
fn two_clients_that_extend_hold_in_turn() {
    exhaust("2 clients extend", two_clients(4).without_fences());
    sample("2 clients extend, fences", two_clients(2), 40_000);
}

#[test]
fn a_node_that_forgets_gives_no_lock_to_two_clients_and_no_fence_twice() {
    let rules = Rules { extends: false, ..two_clients(2).losing_memory(1) };
    exhaust("1 memory loss, fences, no extends", rules);
    sample("1 memory loss, extends and repairs", two_clients(2).without_fences().losing_memory(1), 40_000);
    sample("3 memory losses, everything", two_clients(3).losing_memory(3), 20_000);
}

#[test]
fn clocks_that_differ_by_the_tolerance_give_no_fence_twice_after_a_memory_loss() {
    sample("1 memory loss, clocks 2 ticks apart", skewed(4), 30_000);
}

#[test]
fn a_clock_that_jumps_ends_no_quarantine_that_a_client_has_seen_begin() {
    let rules = Rules { jumps: 1, ..two_clients(2).without_fences().losing_memory(1) };
    sample("1 memory loss, 1 jump of a clock", rules, 30_000);
}

#[test]
fn a_lock_that_was_released_by_force_is_held_for_one_ttl_at_most() {
    exhaust("1 client, forced release", Rules::<3, 1>::shipped(2).forced());
    sample("2 clients, forced release", two_clients(2).without_fences().forced(), 20_000);
}

#[test]
fn a_lock_that_its_holder_released_does_not_come_back() {
    let rules = Rules::<3, 1>::shipped(2).losing_memory(1).with_late_commands();
    exhaust("1 client, 1 memory loss, late commands", rules);
}

/// Goal: where there is time, see all states of the cases that the other tests only begin, and many
/// of larger ones.
#[test]
#[ignore = "long: run with `--release -- --ignored --nocapture`"]
fn all_states_of_the_larger_cases_with_time_are_safe() {
    exhaust("2 clients extend, fences", two_clients(4));
    let plain = two_clients(4).without_fences();
    exhaust("1 memory loss, extends and repairs", plain.losing_memory(1));
    exhaust("2 memory losses, extends and repairs", two_clients(3).without_fences().losing_memory(2));
    exhaust("1 memory loss, 1 jump of a clock", Rules { jumps: 1, ..plain.losing_memory(1) });
    exhaust("1 memory loss, clocks 2 ticks apart", skewed(5));
    exhaust("1 client, forced release", Rules::<3, 1>::shipped(5).forced());
    exhaust("2 clients, forced release", two_clients(2).without_fences().forced());
    let late = Rules::<3, 1>::shipped(4).losing_memory(2).with_late_commands();
    exhaust("1 client, 2 memory losses, late commands", late);
    let most = 1_000_000;
    sample("1 memory loss, fences, extends", two_clients(4).losing_memory(1), most);
    sample("3 memory losses and a jump", Rules { jumps: 1, ..two_clients(5).losing_memory(3) }, most);
    let late = two_clients(4).losing_memory(1).with_late_commands();
    sample("2 clients, 1 memory loss, late commands", late, most);
    sample("3 clients, 1 memory loss", Rules::<3, 3>::shipped(4).losing_memory(1), most);
    sample("5 nodes, 2 memory losses", Rules::<5, 2>::shipped(4).losing_memory(2), most);
}
