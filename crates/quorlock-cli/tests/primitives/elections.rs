//! One of several candidates leads; another takes over with a higher term.

use crate::SOON;
use crate::harness::{Home, Running};
use quorlock_testkit::{Servers, until_blocking};
use rustix::process::Signal;
use std::fs;

/// Prints its term and leads until it is signalled.
const LEAD: &str = "echo $QUORLOCK_TERM >> terms; echo leads >&2; exec sleep 600";

fn candidate(home: &Home, value: &str) -> Running {
    home.start(&["elect", "scheduler", "--quiet", "--ttl", "3s", "--value", value, "-c", LEAD])
}

fn terms(home: &Home) -> Vec<u64> {
    let terms = fs::read_to_string(home.file("terms")).unwrap_or_default();
    terms.lines().map(|term| term.parse().unwrap()).collect()
}

/// Goal: the leader is killed, the second candidate leads in a higher term, and a follower sees both.
fn the_second_takes_over(home: &Home) {
    let mut one = candidate(home, "10.0.0.1:80");
    one.says("leads");
    let mut follower = home.start(&["leader", "scheduler", "--follow"]);
    let first = follower.answers("\n");
    assert!(first.starts_with("10.0.0.1:80\t"), "{first}");
    let mut two = candidate(home, "10.0.0.2:80");
    one.signal(Signal::KILL);
    two.says("leads");
    let mut second = follower.answers("\n");
    let terms = terms(home);
    if second.starts_with("-\t") {
        assert_eq!(second.trim_end(), format!("-\t{}\tno leader", terms[0]));
        second = follower.answers("\n");
    }
    assert!(terms.len() == 2 && terms[0] < terms[1], "{terms:?}");
    let fields: Vec<&str> = second.trim_end().split('\t').collect();
    assert_eq!(fields[..2], ["10.0.0.2:80", &terms[1].to_string()], "{second}");
    assert!(fields[2].contains('@') && fields[2].contains("(pid "), "{second}");
    let leader = home.run(&["leader", "scheduler", "--json"]).exits(0).json();
    assert_eq!((&leader["value"], &leader["term"]), (&"10.0.0.2:80".into(), &terms[1].into()));

    two.signal(Signal::TERM);
    two.end().exits(143);
    assert_eq!(follower.answers("\n").trim_end(), format!("-\t{}\tno leader", terms[1]));
    let none = home.run(&["leader", "scheduler"]).exits(1);
    none.complains(&["election `scheduler` has no leader", "--follow"]);
    let none = home.run(&["leader", "scheduler", "--json"]).exits(1).json();
    assert_eq!(none["error"]["kind"], "no_leader");
    follower.signal(Signal::INT);
    follower.end().exits(0);
}

#[test]
fn the_second_takes_over_on_one_machine() {
    the_second_takes_over(&Home::new());
}

#[test]
fn the_second_takes_over_on_three_servers() {
    let servers = Servers::start(3);
    the_second_takes_over(&Home::on(&servers));
}

/// Goal: a leader that loses its leadership ends its command, campaigns again and leads again.
#[test]
fn a_leader_that_lost_its_leadership_campaigns_again() {
    let home = Home::new();
    let mut leader = candidate(&home, "first");
    leader.says("leads");
    let status = home.run(&["status", "scheduler", "--show-token", "--json"]).json();
    let token = status["token"].as_str().unwrap();
    home.run(&["force-release", "scheduler", "--token", token, "--yes"]).exits(0);
    leader.says("was lost");
    until_blocking("it leads again", SOON, || terms(&home).len() == 2);
    assert!(terms(&home)[0] < terms(&home)[1]);
    leader.signal(Signal::TERM);
    leader.end().exits(143);
}

#[test]
fn a_command_that_ends_by_itself_ends_the_election_with_its_exit_code() {
    let home = Home::new();
    home.run(&["elect", "scheduler", "-c", "exit 7"]).exits(7);
    home.run(&["leader", "scheduler"]).exits(1);
    let done = home.run(&["elect", "scheduler", "--quiet", "--json", "--", "true"]).exits(0).json_aside();
    assert_eq!((&done["term"], &done["exit_code"]), (&done["fence"], &0.into()));
    home.run(&["elect", "scheduler", "--", "./no-such-program"]).exits(127);
    home.run(&["leader", "scheduler"]).exits(1);
}

#[test]
fn a_signal_ends_a_campaign() {
    let home = Home::new();
    let mut leader = candidate(&home, "one");
    leader.says("leads");
    let mut waiting = home.start(&["elect", "scheduler", "-v", "-c", LEAD]);
    waiting.says("held by");
    waiting.signal(Signal::TERM);
    waiting.end().exits(143);
    assert_eq!(terms(&home).len(), 1);
}

#[test]
fn the_name_of_the_host_is_published_unless_another_value_is_given() {
    let home = Home::new();
    let mut leader = home.start(&["elect", "scheduler", "-c", LEAD]);
    leader.says("leads");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(home.run(&["leader", "scheduler", "--json"]).json()["value"], host.trim());
}

/// Goal: a leader that cannot reach a majority ends its command in time, reports what is wrong, and
/// leads again in a higher term when the nodes are back.
#[test]
fn a_leader_without_a_majority_ends_its_command_and_leads_again_later() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let lead = format!(
        "trap 'echo ended >> ends; exit' TERM; {}",
        LEAD.replace("exec sleep 600", "sleep 600 & wait")
    );
    let mut candidate = home.start(&["elect", "scheduler", "--quiet", "--ttl", "1500ms", "-c", &lead]);
    candidate.says("leads");
    servers[0].pause();
    servers[1].pause();
    candidate.says("was lost");
    candidate.says("still campaigning, but lock `scheduler` needs 2 of 3 nodes");
    assert_eq!((terms(&home).len(), home.file("ends").exists()), (1, true));
    servers[0].resume();
    servers[1].resume();
    candidate.says("leads");
    until_blocking("the second term is written", SOON, || terms(&home).len() == 2);
    assert!(terms(&home)[0] < terms(&home)[1]);
}
