//! Rules that are broken on purpose: the search finds what is wrong with each.

use super::plan::Plan;
use super::rules::{Mutation, Rules};
use super::state::Violation;
use crate::search::{Outcome, search};

/// Enough for every counterexample here, and little enough to fail soon without one.
const MOST_STATES: usize = 400_000;

fn breaks<const N: usize, const C: usize>(
    case: &str,
    rules: Rules<N, C>,
    mutation: Mutation,
    violation: Violation,
) {
    let outcome = search(case, rules.broken(mutation).at_most(MOST_STATES));
    assert!(matches!(outcome, Outcome::Broken { violation: found, .. } if found == violation), "{outcome}");
}

/// A reader that upgrades, and another reader.
fn upgrade_and_reader() -> Rules<3, 2> {
    Rules::valid([Plan::reader("a", 1).upgrades(3), Plan::reader("a", 2)])
}

#[test]
fn a_reader_that_takes_the_highest_counter_without_raising_it_gives_a_fence_twice() {
    let rules = Rules::<3, 2>::valid([Plan::writer("a", 2), Plan::reader("a", 1)]);
    breaks("reader-max", rules, Mutation::ReaderMax, Violation::DuplicateFence);
}

#[test]
fn a_node_that_counts_though_it_admitted_some_names_gives_one_name_to_two_clients() {
    let rules = Rules::<3, 2>::valid([Plan::writer("ab", 2), Plan::writer("b", 1)]);
    breaks("partial", rules, Mutation::Partial, Violation::Conflict);
}

#[test]
fn a_node_that_confirms_though_it_raised_some_names_gives_a_fence_twice() {
    let rules = Rules::<3, 2>::valid([Plan::writer("ab", 1), Plan::writer("b", 1)]);
    breaks("half-raise", rules, Mutation::HalfRaise, Violation::DuplicateFence);
}

#[test]
fn readers_that_all_end_with_the_first_of_them_leave_a_reader_without_its_entry() {
    let plans = [Plan::reader("a", 1), Plan::reader("a", 2), Plan::writer("a", 3)];
    breaks(
        "one end, of the first",
        Rules::<3, 3>::valid(plans),
        Mutation::CommonEndFirst,
        Violation::Conflict,
    );
}

#[test]
fn readers_that_all_end_with_the_last_of_them_keep_a_writer_out_for_a_reader_that_ended() {
    let plans = [Plan::reader("a", 1), Plan::reader("a", 2), Plan::writer("a", 3)];
    let rules = Rules::<3, 3>::valid(plans);
    breaks("one end, of the last", rules, Mutation::CommonEndLast, Violation::RefusedByEnded);
}

#[test]
fn a_release_that_removes_all_readers_lets_a_writer_in_next_to_a_reader() {
    let plans = [Plan::reader("a", 1), Plan::reader("a", 2), Plan::writer("a", 3)];
    let rules = Rules::<3, 3>::valid(plans);
    breaks("release of all readers", rules, Mutation::ReleaseRemovesAll, Violation::Conflict);
}

/// Goal: a node that refused the upgrade stores the writer as a reader, and its release must go.
#[test]
fn a_release_that_removes_one_kind_of_entry_leaves_the_other_behind() {
    let rules = upgrade_and_reader();
    breaks("release of one kind", rules, Mutation::ReleaseOfOneKind, Violation::LeftBehind);
}

#[test]
fn an_upgrade_with_other_readers_present_gives_a_writer_next_to_a_reader() {
    let rules = upgrade_and_reader();
    breaks("upgrade with readers", rules, Mutation::UpgradeWithReaders, Violation::Conflict);
}

#[test]
fn an_upgrade_of_two_readers_at_once_gives_a_writer_next_to_a_reader() {
    let plans = [Plan::reader("a", 1).upgrades(3), Plan::reader("a", 2).upgrades(4)];
    breaks("upgrade of two", Rules::<3, 2>::valid(plans), Mutation::UpgradeOfTwo, Violation::Conflict);
}

/// Goal: another reader was returned a higher fence since, and has ended.
#[test]
fn an_upgrade_that_keeps_its_fence_writes_below_an_earlier_holder() {
    let rules = upgrade_and_reader();
    breaks("upgrade keeps its fence", rules, Mutation::UpgradeKeepsFence, Violation::HoldingOrder);
}

#[test]
fn an_upgrade_that_does_not_prolong_its_entries_counts_one_that_ends_before_the_lease() {
    let rules = upgrade_and_reader().leaving_nothing().extending();
    breaks("upgrade keeps the end", rules, Mutation::UpgradeKeepsEnd, Violation::Conflict);
}

#[test]
fn an_undo_that_removes_the_entry_takes_the_readers_hold_away() {
    let rules = Rules::<3, 2>::valid([Plan::reader("a", 1).upgrades(3), Plan::writer("a", 2)]);
    breaks("undo removes", rules, Mutation::UndoRemoves, Violation::Conflict);
}

#[test]
fn an_upgrade_that_arrives_after_its_undo_leaves_a_writer_that_reads() {
    let rules = upgrade_and_reader();
    breaks("upgrade after undo", rules, Mutation::Reordered, Violation::UpgradedAfterUndo);
}

/// Goal: a client that downgrades and then upgrades must not have its late downgrade executed.
#[test]
fn a_downgrade_that_arrives_after_a_later_upgrade_makes_a_reader_of_a_writer() {
    let plans = [Plan::writer("a", 1).downgrades().upgrades(3), Plan::reader("a", 2)];
    let rules = Rules::<3, 2>::valid(plans).leaving_nothing();
    breaks("downgrade after upgrade", rules, Mutation::LateDowngrade, Violation::Conflict);
}

#[test]
fn a_downgrade_that_counts_when_a_majority_has_answered_is_a_writer_next_to_a_reader() {
    let rules = Rules::<3, 2>::valid([Plan::writer("a", 2).downgrades(), Plan::reader("a", 1)]);
    breaks("downgrade counted late", rules, Mutation::DowngradeCountedLate, Violation::Conflict);
}

#[test]
fn a_downgrade_in_two_steps_lets_a_writer_in_between() {
    let rules = Rules::<3, 2>::valid([Plan::writer("a", 2).downgrades(), Plan::writer("a", 1)]);
    breaks("downgrade in two steps", rules, Mutation::DowngradeInTwoSteps, Violation::Conflict);
}

/// Goal: after an upgrade on a majority, another node still stores the writer as a reader.
#[test]
fn an_extend_that_counts_a_readers_entry_for_a_writer_gives_a_writer_next_to_a_reader() {
    let rules = upgrade_and_reader().leaving_nothing().extending();
    breaks("extend of any kind", rules, Mutation::ExtendOfAnyKind, Violation::Conflict);
}
