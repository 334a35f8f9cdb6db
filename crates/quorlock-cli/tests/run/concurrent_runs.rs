//! Many at once: no update of an unprotected counter is lost, whatever happens to two of five
//! servers.

use crate::harness::{Home, Running};
use quorlock_testkit::proxy::Fault;
use quorlock_testkit::{Proxy, Servers, until_blocking};
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

/// Goal: the same where each machine is near one server, whose vote it gets first, and far from the
/// others.
#[test]
fn a_job_that_three_zones_start_at_once_runs_once() {
    let servers = Servers::start(3);
    drop(Home::on(&servers));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut wires = Vec::new();
    let mut zone = |near: usize| {
        let urls = servers.iter().enumerate().map(|(number, server)| {
            if number == near {
                return server.url();
            }
            let wire = runtime.block_on(Proxy::start(server.port()));
            runtime.block_on(wire.set(Fault::Distance(Duration::from_millis(20))));
            wires.push(wire);
            wires[wires.len() - 1].url()
        });
        Home::with_nodes(&urls.collect::<Vec<_>>())
    };
    let machines = [zone(0), zone(1), zone(2)];
    for trial in 0..6 {
        let log = machines[0].file(&format!("log{trial}"));
        let (name, job) = (format!("nightly{trial}"), format!("echo ran >> {}", log.display()));
        let args =
            ["run", &name, "--node-timeout", "500ms", "--skip", "--at-least", "2s", "-c", job.as_str()];
        let runs: Vec<Running> = machines.iter().map(|home| home.start(&args)).collect();
        for run in runs {
            let done = run.end().exits(0);
            assert_eq!(done.err, "");
        }
        assert_eq!(fs::read_to_string(log).unwrap_or_default(), "ran\n", "trial {trial}");
    }
}

/// Goal: a job that no client can run is no success: three values, of which none is on a majority,
/// never go away.
#[test]
fn a_job_that_no_client_can_run_is_not_skipped_silently() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    for (number, server) in servers.iter().enumerate() {
        server.cli(&["SET", "nightly", &format!("{number} has it")]);
    }
    let done = home.run(&["run", "nightly", "--skip", "--", "touch", "ran"]).exits(75);
    done.complains(&["contended: no client has a majority", "perhaps no client did the work"]);
    let done = home.run(&["run", "nightly", "--skip", "--wait", "1s", "--json", "--", "touch", "ran"]);
    assert_eq!(done.exits(75).json_aside()["error"]["kind"], "contended");
    home.run(&["run", "nightly", "--wait", "100ms", "-E", "9", "--", "touch", "ran"]).exits(9);
    assert!(!home.file("ran").exists());
}
