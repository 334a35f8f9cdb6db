//! The shipped lock keeps its promises on real servers in a short run with faults.
#![allow(clippy::unwrap_used)]

use quorlock_testkit::Etcd;
use quorlock_testkit::nemesis::{Contestant, Engine, Outcome, Row, Setting, table};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Storms at the same time would take the machine from each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn run(setting: &Setting) -> Outcome {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    quorlock_testkit::nemesis::run(setting)
}

/// Goal: every promise is checked; of the speed only a minimum is demanded, because the machine may
/// be busy.
#[test]
fn no_promise_breaks_in_a_short_run() {
    run_short(Engine::Redis);
}

#[test]
fn no_promise_breaks_in_a_short_run_on_etcd() {
    if !Etcd::is_here() {
        eprintln!("skipped: no etcd here: apt-get install etcd-server");
        return;
    }
    run_short(Engine::Etcd);
}

fn run_short(engine: Engine) {
    let setting = Setting {
        engine,
        nodes: 3,
        fault_phase: Duration::from_secs(9),
        ..Setting::new(7, env!("CARGO_BIN_EXE_nemesis").into())
    };
    let outcome = run(&setting);
    outcome.print(&setting);
    for check in outcome.promises() {
        assert!(check.is_passed(), "{check}\n{}", outcome.history.evidence().join("\n"));
    }
    let acquisitions = outcome.history.acquisitions();
    assert!(acquisitions >= 20, "only {acquisitions} acquisitions");
    assert!(outcome.faults.len() >= 5, "only these faults: {:?}", outcome.faults);
}

/// Goal: the client of another library runs, is given faults, and is judged by the same clock. What it
/// breaks is not our matter.
#[test]
fn another_library_runs_in_the_same_storm() {
    let setting = Setting {
        contestant: Some(Contestant::Redsync),
        nodes: 3,
        clients: 3,
        fault_phase: Duration::from_secs(4),
        ..Setting::new(7, env!("CARGO_BIN_EXE_nemesis").into())
    };
    if let Some(missing) = Contestant::Redsync.missing() {
        eprintln!("skipped: {missing}");
        return;
    }
    let row = Row::new(Contestant::Redsync, &run(&setting));
    println!("{}", table(std::slice::from_ref(&row)));
    assert!(row.acquisitions > 10, "{row:?}");
    assert!(row.lost_updates.1 > 0, "{row:?}");
    assert_eq!((row.crashes, row.lost_with_fence), (0, None), "{row:?}");
}

/// Goal: in the storm of the comparison, too, quorlock keeps its promises.
#[test]
fn quorlock_keeps_its_promises_in_the_comparison() {
    let setting = Setting {
        contestant: Some(Contestant::Quorlock),
        nodes: 3,
        fault_phase: Duration::from_secs(4),
        ..Setting::new(8, env!("CARGO_BIN_EXE_nemesis").into())
    };
    let outcome = run(&setting);
    for check in outcome.promises() {
        assert!(check.is_passed(), "{check}\n{}", outcome.history.evidence().join("\n"));
    }
    let row = Row::new(Contestant::Quorlock, &outcome);
    assert_eq!((row.left_behind, row.crashes, row.not_recovered), (0, 0, 0), "{row:?}");
}
