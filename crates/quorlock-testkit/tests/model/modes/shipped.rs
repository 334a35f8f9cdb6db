//! The rules as shipped keep their promises in every state that is reached.

use super::plan::Plan;
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

fn writer_and_reader() -> [Plan; 2] {
    [Plan::writer("a", 2), Plan::reader("a", 1)]
}

fn two_readers() -> [Plan; 2] {
    [Plan::reader("a", 2), Plan::reader("a", 1)]
}

/// Two clients whose sets share one name, with `plan` for the kind of client.
fn two_sets(plan: fn(&str, u8) -> Plan) -> [Plan; 2] {
    [plan("ab", 2), plan("bc", 1)]
}

fn downgrade_and_reader() -> [Plan; 2] {
    [Plan::writer("a", 2).downgrades(), Plan::reader("a", 1)]
}

fn downgrade_and_writer() -> [Plan; 2] {
    [Plan::writer("a", 2).downgrades(), Plan::writer("a", 1)]
}

fn upgrade_and_reader() -> [Plan; 2] {
    [Plan::reader("a", 1).upgrades(3), Plan::reader("a", 2)]
}

fn upgrade_and_writer() -> [Plan; 2] {
    [Plan::reader("a", 1).upgrades(3), Plan::writer("a", 2)]
}

fn two_upgrades() -> [Plan; 2] {
    [Plan::reader("a", 1).upgrades(3), Plan::reader("a", 2).upgrades(4)]
}

/// A writer that downgrades and upgrades again.
fn downgrade_upgrade_and_reader() -> [Plan; 2] {
    [Plan::writer("a", 1).downgrades().upgrades(3), Plan::reader("a", 2)]
}

/// A reader whose second proposal is too low everywhere, so that its upgrade stamps.
fn late_upgrade_and_reader() -> [Plan; 2] {
    [Plan::reader("a", 2).upgrades(1), Plan::reader("a", 1)]
}

fn three_clients() -> [Plan; 3] {
    [Plan::writer("a", 3), Plan::reader("a", 1), Plan::reader("a", 2)]
}

fn three_with_an_upgrade() -> [Plan; 3] {
    [Plan::reader("a", 1).upgrades(4), Plan::reader("a", 2), Plan::writer("a", 3)]
}

fn three_with_a_downgrade() -> [Plan; 3] {
    [Plan::writer("a", 2).downgrades(), Plan::reader("a", 1), Plan::writer("a", 3)]
}

fn three_sets() -> [Plan; 3] {
    [Plan::writer("ab", 3), Plan::writer("bc", 1), Plan::reader("ac", 2)]
}

#[test]
fn a_writer_and_a_reader_hold_in_turn() {
    let rules = Rules::<3, 2>::valid(writer_and_reader());
    exhaust("writer, reader", rules);
    exhaust("writer, reader, late answers", rules.answered_late());
    exhaust("writer, reader, extends", rules.extending());
}

#[test]
fn two_readers_get_different_fences_in_order() {
    let rules = Rules::<3, 2>::valid(two_readers());
    exhaust("reader, reader, nothing left", rules.leaving_nothing());
    sample("reader, reader", rules, 30_000);
}

#[test]
fn two_sets_that_share_a_name_conflict() {
    let rules = Rules::<3, 2>::valid(two_sets(Plan::writer)).leaving_nothing();
    exhaust("writers of {a, b} and {b, c}, nothing left", rules);
    exhaust("writers of {a, b} and {b, c}, nothing left, name by name", rules.native());
    let rules = Rules::<3, 2>::valid(two_sets(Plan::reader)).leaving_nothing();
    exhaust("readers of {a, b} and {b, c}, nothing left", rules);
    sample("writers of {a, b} and {b, c}", Rules::<3, 2>::valid(two_sets(Plan::writer)), 20_000);
}

#[test]
fn a_set_and_one_of_its_names_conflict() {
    let single = |plan: fn(&str, u8) -> Plan, other: fn(&str, u8) -> Plan| {
        Rules::<3, 2>::valid([plan("ab", 2), other("b", 1)]).leaving_nothing()
    };
    exhaust("writer of {a, b}, writer of b, nothing left", single(Plan::writer, Plan::writer));
    exhaust("writer of {a, b}, reader of b, nothing left", single(Plan::writer, Plan::reader));
    let rules = single(Plan::reader, Plan::writer);
    exhaust("reader of {a, b}, writer of b, nothing left", rules);
    exhaust("reader of {a, b}, writer of b, nothing left, name by name", rules.native());
}

#[test]
fn a_writer_that_downgrades_lets_readers_in_and_no_writer() {
    let rules = Rules::<3, 2>::valid(downgrade_and_reader()).leaving_nothing();
    exhaust("downgrade, reader, nothing left", rules);
    exhaust("downgrade, reader, nothing left, late answers", rules.answered_late());
    exhaust("downgrade, reader, nothing left, extends", rules.extending());
    let rules = Rules::<3, 2>::valid(downgrade_and_writer()).leaving_nothing();
    exhaust("downgrade, writer, nothing left, extends", rules.extending());
    sample("downgrade, reader", Rules::<3, 2>::valid(downgrade_and_reader()), 20_000);
    let rules = Rules::<3, 2>::valid(downgrade_upgrade_and_reader()).leaving_nothing();
    exhaust("downgrade and upgrade, reader, nothing left", rules);
}

#[test]
fn a_reader_that_upgrades_is_alone() {
    exhaust("upgrade, reader, nothing left", Rules::<3, 2>::valid(upgrade_and_reader()).leaving_nothing());
    exhaust("upgrade, writer, nothing left", Rules::<3, 2>::valid(upgrade_and_writer()).leaving_nothing());
    sample("upgrade, reader, extends", Rules::<3, 2>::valid(upgrade_and_reader()).extending(), 20_000);
    let rules = Rules::<3, 2>::valid(late_upgrade_and_reader()).leaving_nothing();
    sample("upgrade with a low proposal, reader, nothing left", rules, 20_000);
}

#[test]
fn two_readers_that_upgrade_at_once_both_stay_readers() {
    sample("upgrade, upgrade, nothing left", Rules::<3, 2>::valid(two_upgrades()).leaving_nothing(), 30_000);
}

#[test]
fn fences_stay_unique_and_in_order_whatever_is_lost() {
    sample("any loss: writer, reader", Rules::<3, 2>::any(writer_and_reader()), 20_000);
    sample("any loss: reader, reader", Rules::<3, 2>::any(two_readers()), 20_000);
    sample("any loss: two sets", Rules::<3, 2>::any(two_sets(Plan::writer)).native(), 20_000);
    sample("any loss: upgrade, reader", Rules::<3, 2>::any(upgrade_and_reader()), 20_000);
}

#[test]
fn three_clients_keep_the_promises() {
    sample("3 clients: writer, 2 readers", Rules::<3, 3>::valid(three_clients()), 15_000);
    sample("3 clients: sets", Rules::<3, 3>::valid(three_sets()), 15_000);
    sample("3 clients: upgrade, reader, writer", Rules::<3, 3>::valid(three_with_an_upgrade()), 15_000);
    sample("3 clients: downgrade, reader, writer", Rules::<3, 3>::valid(three_with_a_downgrade()), 15_000);
}

#[test]
fn five_nodes_keep_the_promises() {
    sample("5 nodes: writer, reader", Rules::<5, 2>::valid(writer_and_reader()), 15_000);
    sample("5 nodes: upgrade, reader", Rules::<5, 2>::valid(upgrade_and_reader()), 15_000);
}

/// Goal: where there is time, see all states of the cases that the other tests only begin.
#[test]
#[ignore = "long: run with `--release -- --ignored --nocapture`"]
fn all_states_of_the_larger_cases_with_two_clients_are_safe() {
    let valid = Rules::<3, 2>::valid;
    exhaust("reader, reader", valid(two_readers()));
    exhaust(
        "reader, reader, nothing left, late answers",
        valid(two_readers()).leaving_nothing().answered_late(),
    );
    exhaust("reader, reader, extends", valid(two_readers()).extending());
    exhaust("writers of {a, b} and {b, c}", valid(two_sets(Plan::writer)));
    exhaust("downgrade, reader", valid(downgrade_and_reader()));
    exhaust("upgrade, writer", valid(upgrade_and_writer()));
    let small = |plans| valid(plans).leaving_nothing();
    exhaust("upgrade, upgrade, nothing left", small(two_upgrades()));
    exhaust("upgrade with a low proposal, reader, nothing left", small(late_upgrade_and_reader()));
    exhaust("upgrade, reader, nothing left, extends", small(upgrade_and_reader()).extending());
    exhaust("any loss: writer, reader", Rules::<3, 2>::any(writer_and_reader()));
}

/// Goal: see many states of the cases that are too large for all.
#[test]
#[ignore = "long: run with `--release -- --ignored --nocapture`"]
fn many_states_of_the_largest_cases_are_safe() {
    let most = 1_000_000;
    sample("any loss: reader, reader", Rules::<3, 2>::any(two_readers()), most);
    sample("any loss: two sets", Rules::<3, 2>::any(two_sets(Plan::writer)).native(), most);
    sample("any loss: upgrade, reader", Rules::<3, 2>::any(upgrade_and_reader()), most);
    sample("upgrade, reader, extends", Rules::<3, 2>::valid(upgrade_and_reader()).extending(), most);
    let three = |plans| Rules::<3, 3>::valid(plans).leaving_nothing();
    sample("3 clients: writer, 2 readers, nothing left", three(three_clients()), most);
    sample("3 clients: sets, nothing left", three(three_sets()), most);
    sample("3 clients: upgrade, reader, writer, nothing left", three(three_with_an_upgrade()), most);
    sample("3 clients: downgrade, reader, writer, nothing left", three(three_with_a_downgrade()), most);
    let five = |plans| Rules::<5, 2>::valid(plans).leaving_nothing();
    sample("5 nodes: writer, reader, nothing left", five(writer_and_reader()), most);
    sample("5 nodes: reader, reader, nothing left", five(two_readers()), most);
    sample("5 nodes: downgrade, reader, nothing left", five(downgrade_and_reader()), most);
    sample("5 nodes: upgrade, reader, nothing left", five(upgrade_and_reader()), most);
}
