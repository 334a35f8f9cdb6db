//! Following locks without a terminal: lines and objects, until a signal or the end of the reader.

use crate::harness::{Home, Running};
use quorlock_testkit::Servers;
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn each_snapshot_is_a_line_and_ctrl_c_is_the_way_out() {
    let home = Home::new();
    home.run(&["acquire", "job"]).exits(0);
    let mut watch = home.start(&["watch", "--interval", "100ms"]);
    let lines = watch.answers("held by");
    assert!(lines.contains("nodes 1/1 up: `job`"), "{lines}");
    watch.answers("\n");
    watch.answers("\n");
    watch.signal(Signal::INT);
    watch.end().exits(0);
}

#[test]
fn term_ends_a_watch_as_it_ends_others() {
    let home = Home::new();
    let mut watch = home.start(&["watch", "job"]);
    assert!(watch.answers("\n").contains("lock `job` is free"));
    watch.signal(Signal::TERM);
    watch.end().exits(143);
}

#[test]
fn programs_get_an_object_per_snapshot_with_the_nodes_that_are_down() {
    let mut servers = Servers::start(3);
    let home = Home::on(&servers);
    servers[2].kill();
    home.run(&["acquire", "job"]).exits(0);
    let mut watch = home.start(&["watch", "job", "--json", "--interval", "100ms"]);
    let look = || serde_json::from_str::<Value>(&watch.answers("\n")).unwrap();
    let looks: Vec<Value> = std::iter::repeat_with(look).take(3).collect();
    for look in looks {
        let up: Vec<&Value> = look["health"].as_array().unwrap().iter().map(|node| &node["up"]).collect();
        assert_eq!(up, [true, true, false], "{look}");
        assert_eq!(look["lock"]["votes"], 2);
        assert!(look["time"].is_u64() && look["lock"]["token"].is_null());
    }
}

#[test]
fn a_watch_goes_on_without_a_majority() {
    let mut servers = Servers::start(3);
    let home = Home::on(&servers);
    let mut watch = home.start(&["watch", "--interval", "100ms"]);
    watch.answers("nodes 3/3 up: no lock is held\n");
    servers[0].kill();
    servers[1].kill();
    watch.answers("nodes 1/3 up: error: locks cannot be listed");
}

#[test]
fn a_reader_that_goes_away_ends_the_watch() {
    let home = Home::new();
    let mut command = home.command(&["watch", "--interval", "100ms"]);
    let (reader, writer) = std::io::pipe().unwrap();
    let watch = Running::new(command.stdout(writer));
    drop((command, reader));
    watch.end().exits(0);
}
