//! The protocol as shipped keeps its promises in every state that is reached.

use crate::rules::{NameLoss, Rules, Voting};
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

#[test]
fn two_clients_are_safe_whatever_is_lost() {
    exhaust(
        "3 nodes, 2 clients, atomic, any loss",
        Rules::<3, 2>::shipped([2, 1], Voting::Atomic, NameLoss::Any),
    );
}

#[test]
fn two_clients_hold_in_turn_and_in_order_where_names_end_as_they_should() {
    for voting in [Voting::Atomic, Voting::Native] {
        let case = format!("3 nodes, 2 clients, {voting:?}, valid loss");
        exhaust(&case, Rules::<3, 2>::shipped([2, 1], voting, NameLoss::Valid));
    }
    let rules = Rules::<3, 2>::shipped([2, 1], Voting::Atomic, NameLoss::Valid).answered_late();
    exhaust("3 nodes, 2 clients, atomic, valid loss, late answers", rules);
}

#[test]
fn two_clients_that_propose_the_same_number_are_safe() {
    let rules = Rules::<3, 2>::shipped([1, 1], Voting::Atomic, NameLoss::Any);
    sample("3 nodes, equal proposals, atomic, any loss", rules, 100_000);
}

#[test]
fn two_clients_with_votes_as_separate_commands_are_safe_whatever_is_lost() {
    let rules = Rules::<3, 2>::shipped([2, 1], Voting::Native, NameLoss::Any);
    sample("3 nodes, 2 clients, native, any loss", rules, 100_000);
}

#[test]
fn answers_that_come_late_do_no_harm() {
    let rules = Rules::<3, 2>::shipped([2, 1], Voting::Atomic, NameLoss::Any).answered_late();
    sample("3 nodes, 2 clients, atomic, any loss, late answers", rules, 100_000);
}

#[test]
fn three_clients_are_safe() {
    let any = Rules::<3, 3>::shipped([3, 1, 2], Voting::Atomic, NameLoss::Any);
    sample("3 nodes, 3 clients, atomic, any loss", any, 100_000);
    let valid = Rules::<3, 3>::shipped([3, 1, 2], Voting::Atomic, NameLoss::Valid);
    sample("3 nodes, 3 clients, atomic, valid loss", valid, 100_000);
}

#[test]
fn two_clients_on_five_nodes_are_safe() {
    let any = Rules::<5, 2>::shipped([2, 1], Voting::Atomic, NameLoss::Any);
    sample("5 nodes, 2 clients, atomic, any loss", any, 60_000);
    let valid = Rules::<5, 2>::shipped([2, 1], Voting::Atomic, NameLoss::Valid);
    sample("5 nodes, 2 clients, atomic, valid loss", valid, 100_000);
}

/// Goal: where there is time, see all states of the cases that the other tests only begin.
///
/// Needs a release build, and about two minutes and two gigabytes.
#[test]
#[ignore = "long: run with `--release -- --ignored --nocapture`"]
fn all_states_of_the_larger_cases_are_safe() {
    let case = |proposals, voting| Rules::<3, 2>::shipped(proposals, voting, NameLoss::Any);
    exhaust("3 nodes, equal proposals, atomic, any loss", case([1, 1], Voting::Atomic));
    exhaust("3 nodes, 2 clients, native, any loss", case([2, 1], Voting::Native));
    let late = case([2, 1], Voting::Atomic).answered_late();
    exhaust("3 nodes, 2 clients, atomic, any loss, late answers", late);
    let most = 8_000_000;
    let late = case([2, 1], Voting::Native).answered_late();
    sample("3 nodes, 2 clients, native, any loss, late answers", late, most);
    let three = Rules::<3, 3>::shipped([3, 1, 2], Voting::Atomic, NameLoss::Any);
    sample("3 nodes, 3 clients, atomic, any loss", three, most);
    let five = Rules::<5, 2>::shipped([2, 1], Voting::Atomic, NameLoss::Any);
    sample("5 nodes, 2 clients, atomic, any loss", five, most);
}
