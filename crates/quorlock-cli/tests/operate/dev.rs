//! Servers to try things on: started, used, stopped, whatever happens to us.

use crate::harness::{Home, Running};
use crate::{home, troubles};
use quorlock_testkit::until_blocking;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, test_kill_process};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

/// `quorlock dev` with a directory of its own for temporary files.
fn dev(home: &Home, args: &[&str]) -> Command {
    let scratch = home.path().join("tmp");
    fs::create_dir_all(&scratch).unwrap();
    let mut command = home.command(&[&["dev"], args].concat());
    command.env("TMPDIR", scratch);
    command
}

/// What is left in the directory for temporary files.
fn left(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(home.path().join("tmp")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn started(running: &mut Running) -> (Vec<Pid>, String) {
    let printed: Value = serde_json::from_str(&running.answers("\n")).unwrap();
    let nodes = printed["nodes"].as_array().unwrap().iter();
    let pids = nodes.map(|node| Pid::from_raw(node["pid"].as_i64().unwrap().try_into().unwrap()).unwrap());
    (pids.collect(), printed["environment"]["QUORLOCK_NODES"].as_str().unwrap().to_owned())
}

fn is_alive(pid: Pid) -> bool {
    // One that ended and was not waited for yet is no process any more.
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(pid).is_ok() && !stat.contains(") Z ")
}

#[test]
fn servers_are_started_can_vote_and_stop_with_us() {
    for signal in [Signal::INT, Signal::TERM] {
        let home = home();
        let mut running = Running::new(&mut dev(&home, &["--count", "3", "--json"]));
        let (pids, nodes) = started(&mut running);
        assert_eq!((pids.len(), nodes.split(',').count()), (3, 3));
        assert!(pids.iter().all(|pid| is_alive(*pid)));
        let report = home.run(&["doctor", "--json", "--nodes", &nodes]).exits(0).json();
        assert_eq!((&report["can_vote"], troubles(&report).len()), (&3.into(), 0), "{report:#}");
        running.signal(signal);
        running.end().exits(0);
        assert!(!pids.iter().any(|pid| is_alive(*pid)), "all have ended");
        assert_eq!(left(&home), [""; 0]);
    }
}

#[test]
fn the_line_to_paste_is_all_that_is_on_stdout() {
    let home = home();
    let mut running = Running::new(&mut dev(&home, &["--count", "1"]));
    let line = running.answers("\n");
    assert!(line.starts_with("export QUORLOCK_NODES=redis://127.0.0.1:"), "{line}");
    let printed = running.says("Ctrl-C stops all");
    assert!(printed.contains("runs as process") && printed.contains("quorlock doctor"), "{printed}");
    running.signal(Signal::INT);
    assert_eq!(running.end().exits(0).out, "");
}

#[test]
fn servers_die_with_us_however_we_die_and_the_next_one_cleans_up() {
    let home = home();
    let mut running = Running::new(&mut dev(&home, &["--count", "2", "--json"]));
    let (pids, _) = started(&mut running);
    running.signal(Signal::KILL);
    running.end();
    until_blocking("the servers are gone", SOON, || !pids.iter().any(|pid| is_alive(*pid)));
    assert_eq!(left(&home).len(), 1, "its process was killed before it could remove it");
    Running::new(&mut dev(&home, &["--count", "1", "--", "true"])).end().exits(0);
    assert_eq!(left(&home), [""; 0]);
}

#[test]
fn a_server_that_is_killed_is_a_dead_node_and_the_others_go_on() {
    let home = home();
    let mut running = Running::new(&mut dev(&home, &["--count", "3", "--json"]));
    let (pids, nodes) = started(&mut running);
    rustix::process::kill_process(pids[0], Signal::KILL).unwrap();
    until_blocking("it is gone", SOON, || !is_alive(pids[0]));
    let report = home.run(&["doctor", "--json", "--nodes", &nodes]).exits(0).json();
    assert_eq!(report["can_vote"], 2, "{report:#}");
    running.signal(Signal::INT);
    running.end().exits(0);
}

#[test]
fn a_command_gets_the_nodes_and_its_end_is_ours() {
    let home = home();
    let script = "test -n \"$QUORLOCK_NODES\" && \"$0\" run job -- echo held && exit 7";
    let program = env!("CARGO_BIN_EXE_quorlock");
    let ended = Running::new(&mut dev(&home, &["--count", "3", "--", "sh", "-c", script, program])).end();
    assert_eq!(ended.exits(7).out, "held\n");
    assert_eq!(left(&home), [""; 0]);
    Running::new(&mut dev(&home, &["--count", "1", "--", "no-such-command"])).end().exits(127);
    Running::new(&mut dev(&home, &["--count", "1", "--", "/"])).end().exits(126);
    assert_eq!(left(&home), [""; 0]);
}

#[test]
fn a_signal_is_forwarded_to_the_command() {
    let home = home();
    let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let mut running = Running::new(&mut dev(&home, &["--count", "1", "--", "sh", "-c", script]));
    running.answers("ready\n");
    running.signal(Signal::TERM);
    running.end().exits(9);
}

#[test]
fn where_no_server_is_installed_it_says_how_to_get_one() {
    let home = home();
    let ended = Running::new(dev(&home, &[]).env("PATH", home.path())).end().exits(127);
    ended.complains(&["apt install redis-server", "dnf install", "brew install redis"]);
    let other = Running::new(&mut dev(&home, &["--server", "my-redis", "--json"])).end().exits(127);
    assert_eq!(other.json()["error"]["kind"], "not_found");
}

#[test]
fn a_program_that_is_no_server_is_reported() {
    let home = home();
    let program = home.path().join("broken");
    fs::write(&program, "#!/bin/sh\nexit 1\n").unwrap();
    make_executable(&program);
    let ended = Running::new(&mut dev(&home, &["--server", program.to_str().unwrap()])).end();
    ended.exits(126).complains(&["cannot be started"]);
    assert_eq!(left(&home), [""; 0]);
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Goal: what others put into the directory for temporary files does not stop us.
#[test]
fn a_pipe_where_a_file_should_be_blocks_nothing() {
    let home = home();
    let mut command = dev(&home, &["--count", "1", "--", "true"]);
    fs::create_dir_all(home.path().join("tmp/quorlock-dev-evil")).unwrap();
    let pipe = home.path().join("tmp/quorlock-dev-evil/in-use");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    Running::new(&mut command).end().exits(0);
    assert_eq!(left(&home), ["quorlock-dev-evil"]);
}
