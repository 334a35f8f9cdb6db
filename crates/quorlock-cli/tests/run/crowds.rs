//! Many at once: no update of an unprotected counter is lost, whatever happens to two of five servers.

use crate::kit::{Done, User};
use quorlock_testkit::{Servers, until_blocking};
use std::fs;
use std::process::Child;
use std::time::Duration;

const CROWD: usize = 20;
const SOON: Duration = Duration::from_secs(120);

/// Reads a number, takes its time, writes the next.
const COUNT: &str = "n=$(cat counter); sleep 0.02; echo $((n + 1)) > counter";

fn crowd(user: &User) -> Vec<Child> {
    fs::write(user.path("counter"), "0\n").unwrap();
    (0..CROWD).map(|_| user.start(&["run", "counter", "--wait", "2m", "-c", COUNT])).collect()
}

fn count(user: &User) -> usize {
    fs::read_to_string(user.path("counter")).unwrap().trim().parse().unwrap_or(0)
}

fn all_end_well(user: &User, crowd: Vec<Child>) {
    for run in crowd {
        Done::from(run.wait_with_output().unwrap()).expect(0);
    }
    assert_eq!(count(user), CROWD);
}

#[test]
fn no_update_is_lost_on_the_file_node() {
    let user = User::new();
    let crowd = crowd(&user);
    all_end_well(&user, crowd);
}

#[test]
fn no_update_is_lost_on_five_servers() {
    let servers = Servers::start(5);
    let user = User::with_fresh_nodes(&servers.urls());
    let crowd = crowd(&user);
    all_end_well(&user, crowd);
}

#[test]
fn no_update_is_lost_while_two_of_five_servers_die_and_come_back() {
    let mut servers = Servers::start(5);
    let user = User::with_fresh_nodes(&servers.urls());
    let crowd = crowd(&user);
    until_blocking("some had their turn", SOON, || count(&user) >= 3);
    servers[1].kill();
    servers[4].kill();
    until_blocking("some more had their turn", SOON, || count(&user) >= 8);
    servers[1].restart();
    servers[4].restart();
    all_end_well(&user, crowd);
}

/// Goal: three machines whose cron starts the same job at the same moment; one of them does it.
#[test]
fn a_job_that_three_machines_start_at_once_runs_once() {
    let servers = Servers::start(3);
    let machines = [(); 3].map(|()| User::with_fresh_nodes(&servers.urls()));
    let log = machines[0].path("log");
    let job = format!("echo ran >> {}", log.display());
    let runs: Vec<Child> = machines
        .iter()
        .map(|user| user.start(&["run", "nightly", "--skip", "--at-least", "3s", "-c", &job]))
        .collect();
    for run in runs {
        let done = Done::from(run.wait_with_output().unwrap()).expect(0);
        assert_eq!(done.stderr, "");
    }
    assert_eq!(fs::read_to_string(log).unwrap(), "ran\n");
}
