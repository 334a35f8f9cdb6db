//! The shipped lock keeps its promises on real servers in a short run with faults.
#![allow(clippy::unwrap_used)]

use quorlock_testkit::Etcd;
use quorlock_testkit::nemesis::{Engine, Setting, run};
use std::time::Duration;

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
