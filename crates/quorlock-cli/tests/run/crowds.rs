//! Many at once: no update of an unprotected counter is lost, whatever happens to two of five servers.

use crate::kit::{Home, Running};
use quorlock_testkit::{Servers, until_blocking};
use std::fs;
use std::time::Duration;

const CROWD: usize = 20;
const SOON: Duration = Duration::from_secs(120);

/// Reads a number, takes its time, writes the next.
const COUNT: &str = "n=$(cat counter); sleep 0.02; echo $((n + 1)) > counter";

fn crowd(home: &Home) -> Vec<Running> {
    fs::write(home.file("counter"), "0\n").unwrap();
    (0..CROWD).map(|_| home.start(&["run", "counter", "--wait", "2m", "-c", COUNT])).collect()
}

fn count(home: &Home) -> usize {
    fs::read_to_string(home.file("counter")).unwrap().trim().parse().unwrap_or(0)
}

fn all_end_well(home: &Home, crowd: Vec<Running>) {
    for run in crowd {
        run.end().exits(0);
    }
    assert_eq!(count(home), CROWD);
}

#[test]
fn no_update_is_lost_on_the_file_node() {
    let home = Home::new();
    let crowd = crowd(&home);
    all_end_well(&home, crowd);
}

#[test]
fn no_update_is_lost_on_five_servers() {
    let servers = Servers::start(5);
    let home = Home::on(&servers);
    let crowd = crowd(&home);
    all_end_well(&home, crowd);
}

#[test]
fn no_update_is_lost_while_two_of_five_servers_die_and_come_back() {
    let mut servers = Servers::start(5);
    let home = Home::on(&servers);
    let crowd = crowd(&home);
    until_blocking("some had their turn", SOON, || count(&home) >= 3);
    servers[1].kill();
    servers[4].kill();
    until_blocking("some more had their turn", SOON, || count(&home) >= 8);
    servers[1].restart();
    servers[4].restart();
    all_end_well(&home, crowd);
}

/// Goal: three machines whose cron starts the same job at the same moment; one of them does it.
#[test]
fn a_job_that_three_machines_start_at_once_runs_once() {
    let servers = Servers::start(3);
    let machines = [(); 3].map(|()| Home::on(&servers));
    let log = machines[0].file("log");
    let job = format!("echo ran >> {}", log.display());
    let runs: Vec<Running> = machines
        .iter()
        .map(|home| home.start(&["run", "nightly", "--skip", "--at-least", "3s", "-c", &job]))
        .collect();
    for run in runs {
        let done = run.end().exits(0);
        assert_eq!(done.err, "");
    }
    assert_eq!(fs::read_to_string(log).unwrap(), "ran\n");
}
