//! Every simulated world keeps every promise and repeats itself, and injected bugs are found.
#![allow(clippy::unwrap_used)]

use quorlock_testkit::simulator::{Fault, InjectedBug, Outcome, Setting, Uses, run};

fn assert_whole(setting: &Setting) -> Outcome {
    let outcome = run(setting);
    let broken = outcome.history.violations();
    assert!(broken.is_empty(), "seed {} with {} nodes: {broken:#?}", setting.seed, setting.nodes);
    outcome
}

/// Goal: in no world is a promise broken, and the worlds are rough enough to mean something.
#[test]
fn no_promise_breaks_in_any_world() {
    let (mut acquisitions, mut contended, mut uses) = (0, 0, Uses::default());
    let mut faults = std::collections::BTreeMap::new();
    for seed in 1..=25 {
        let outcome = assert_whole(&Setting::new(seed));
        acquisitions += outcome.history.acquisitions;
        contended += outcome.history.contended;
        uses.add(&outcome.history.uses);
        outcome.faults.into_iter().for_each(|(fault, count)| *faults.entry(fault).or_insert(0) += count);
    }
    assert!(acquisitions > 1_500 && contended * 10 > acquisitions, "{contended} of {acquisitions} contended");
    for fault in Fault::ALL {
        assert!(faults.contains_key(&fault), "{fault} never came");
    }
    for (what, count) in uses.list() {
        assert!(count > 0, "{what} never came");
    }
}

#[test]
fn no_promise_breaks_with_other_numbers_of_nodes() {
    for nodes in [1, 2, 3, 4] {
        for seed in 1..=4 {
            assert_whole(&Setting { nodes, ..Setting::new(seed) });
        }
    }
}

#[test]
fn a_seed_repeats_its_world_to_the_letter() {
    for (seed, plain) in [(3, false), (11, false), (3, true)] {
        let world = || run(&Setting { plain, ..Setting::new(seed) });
        let (one, other) = (world(), world());
        assert_eq!(one.history.timeline(), other.history.timeline());
        assert_eq!((one.faults, one.lasted), (other.faults, other.lasted));
        assert_eq!((one.bytes, one.digest), (other.bytes, other.digest), "the bytes differ");
        assert!(one.bytes > 100_000, "only {} bytes", one.bytes);
    }
}

/// Goal: the simulator finds what it is there to find. `sim --all-bugs` searches for all bugs; these show
/// within a few seeds.
#[test]
fn injected_bugs_are_found() {
    let finds = |bug: InjectedBug, seed| {
        let (plain, nodes) = (!bug.needs_variety(), bug.nodes());
        let outcome = run(&Setting { injected_bug: Some(bug), plain, nodes, ..Setting::new(seed) });
        !outcome.history.violations().is_empty()
    };
    for bug in [
        InjectedBug::NoStamp,
        InjectedBug::BlindDelete,
        InjectedBug::ReachableMajority,
        InjectedBug::LossByAnswer,
        InjectedBug::EpochUnchecked,
        InjectedBug::PartialReplyKept,
        InjectedBug::RepliesAcrossConnections,
        InjectedBug::NoScript,
        InjectedBug::RepairCounts,
        InjectedBug::ReaderUnraised,
        InjectedBug::ReleaseAllReaders,
        InjectedBug::UpgradeAmongReaders,
        InjectedBug::PartialSet,
        InjectedBug::AnyFreeSlot,
    ] {
        let found = (1..=8).find(|seed| finds(bug, *seed));
        assert!(found.is_some(), "the injected bug {bug} was not found");
    }
}
