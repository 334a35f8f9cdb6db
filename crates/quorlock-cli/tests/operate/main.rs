//! Commands for operators: init, dev, bench, doctor, choose.
#![allow(clippy::unwrap_used)]

mod bench;
mod choose;
mod clocks;
mod dev;
mod doctor;
mod documentation;
#[path = "../harness/mod.rs"]
mod harness;
mod init;
mod restarts;
mod terminal;

use harness::{Answer, Home};
use serde_json::Value;

/// A home whose commands are patient with a loaded machine.
fn home() -> Home {
    let home = Home::new();
    let dir = home.path().join("config/quorlock");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.toml"), "node_timeout = \"1s\"\nconnect_timeout = \"5s\"\n").unwrap();
    home
}

/// Runs a command on these nodes, for programs.
fn ask(home: &Home, urls: &[String], args: &[&str]) -> Answer {
    let nodes = urls.join(",");
    let (command, rest) = args.split_at(1);
    home.run(&[command, &["--json", "--nodes", &nodes], rest].concat())
}

/// Lets these nodes vote.
fn init(home: &Home, urls: &[String]) {
    ask(home, urls, &["init", "--yes"]).exits(0);
}

/// The findings of a report, without those that a loaded machine causes.
fn findings(report: &Value) -> Vec<&Value> {
    let loaded = ["slow", "slow-disk", "node-timeout"];
    let all = report["findings"].as_array().unwrap().iter();
    all.filter(|finding| !loaded.contains(&finding["code"].as_str().unwrap())).collect()
}

/// The finding with this code.
fn finding<'a>(report: &'a Value, code: &str) -> &'a Value {
    let found = findings(report).into_iter().find(|finding| finding["code"] == code);
    found.unwrap_or_else(|| panic!("no `{code}` in {report:#}"))
}

/// The codes of all findings that are worse than a note.
fn troubles(report: &Value) -> Vec<&str> {
    let worse = findings(report).into_iter().filter(|finding| finding["severity"] != "note");
    worse.map(|finding| finding["code"].as_str().unwrap()).collect()
}
