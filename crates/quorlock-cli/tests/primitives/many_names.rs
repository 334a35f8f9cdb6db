//! Several names are held together: all or none.

use crate::harness::Home;
use crate::working;
use quorlock_testkit::Servers;

/// Goal: each of the names excludes others, and one that is held refuses all.
fn both_names_are_held_or_none(home: &Home) {
    let holder = working(home, &["disk", "--also", "network"]);
    for name in ["disk", "network"] {
        home.run(&["run", name, "-n", "--", "true"]).exits(75);
    }
    home.run(&["run", "network", "--also", "cpu", "-n", "--", "true"]).exits(75).complains(&[
        "cannot be held together",
        "`network` is held by",
        "help:",
    ]);
    let refused = home.run(&["run", "cpu", "--also", "disk", "-n", "--json", "--", "true"]).exits(75);
    let error = &refused.json_aside()["error"];
    assert_eq!((&error["kind"], &error["held"][0]["name"]), (&"held".into(), &"disk".into()));
    home.run(&["run", "cpu", "-n", "--", "true"]).exits(0);
    drop(holder);
}

#[test]
fn both_names_are_held_or_none_on_one_machine() {
    both_names_are_held_or_none(&Home::new());
}

#[test]
fn both_names_are_held_or_none_on_three_servers() {
    let servers = Servers::start(3);
    both_names_are_held_or_none(&Home::on(&servers));
}

#[test]
fn the_command_gets_the_name_that_was_given_first_and_all_names() {
    let home = Home::new();
    let print = "echo \"$QUORLOCK_NAME:\" $QUORLOCK_NAMES";
    let args = ["run", "b", "--also", "c", "--also", "a", "-c", print];
    assert_eq!(home.run(&args).text(), "b: a b c");
    let done = home.run(&["run", "b", "--also", "a", "--json", "--", "true"]).exits(0).json_aside();
    assert_eq!((&done["name"], &done["names"]), (&"b".into(), &serde_json::json!(["a", "b"])));
}

#[test]
fn names_that_were_acquired_together_are_extended_and_released_together() {
    let home = Home::new();
    let taken = home.run(&["acquire", "b", "--also", "a", "--json"]).exits(0).json();
    assert_eq!((&taken["name"], &taken["names"]), (&"b".into(), &serde_json::json!(["a", "b"])));
    let token = taken["token"].as_str().unwrap();
    let extended = home.run(&["extend", "a", "--also", "b", "--token", token, "--json"]).exits(0).json();
    assert_eq!(extended["fence"], taken["fence"]);
    home.run(&["extend", "a", "--also", "c", "--token", token]).exits(79);
    home.run(&["release", "b", "--also", "a", "--token", token]).exits(0);
    home.run(&["run", "a", "--also", "b", "-n", "--", "true"]).exits(0);
}

#[test]
fn two_readers_of_both_names_share_them() {
    let home = Home::new();
    let args = ["a", "--also", "b", "--shared"];
    let _readers = [(); 2].map(|()| working(&home, &args));
    home.run(&["run", "b", "-n", "--", "true"]).exits(75);
    home.run(&["run", "b", "--shared", "-n", "--", "true"]).exits(0);
}
