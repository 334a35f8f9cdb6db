//! Readers work together and exclude a writer.

use crate::harness::Home;
use crate::working;
use quorlock_testkit::Servers;
use rustix::process::Signal;

/// Goal: two readers hold at once, a writer is refused, and gets its turn when they end.
fn readers_share_and_exclude_a_writer(home: &Home) {
    let mut readers = [(); 2].map(|()| working(home, &["config", "--shared"]));
    let refused = home.run(&["run", "config", "-n", "--", "true"]).exits(75);
    refused.complains(&["lock `config` is held by 2 clients that share it", "quorlock status config"]);
    for reader in &mut readers {
        reader.signal(Signal::TERM);
    }
    home.run(&["run", "config", "--", "true"]).exits(0);
    for reader in readers {
        reader.end().exits(143);
    }

    let _writer = working(home, &["config"]);
    home.run(&["run", "config", "--shared", "-n", "--", "true"]).exits(75);
    assert_eq!(home.run(&["run", "config", "--shared", "--skip", "--", "echo", "ran"]).text(), "");
}

#[test]
fn readers_share_and_exclude_a_writer_on_one_machine() {
    readers_share_and_exclude_a_writer(&Home::new());
}

#[test]
fn readers_share_and_exclude_a_writer_on_three_servers() {
    let servers = Servers::start(3);
    readers_share_and_exclude_a_writer(&Home::on(&servers));
}

#[test]
fn the_command_and_programs_learn_the_mode() {
    let home = Home::new();
    let print = "echo $QUORLOCK_MODE $QUORLOCK_NAMES ${QUORLOCK_SLOT-none}";
    assert_eq!(home.run(&["run", "a", "--shared", "-c", print]).text(), "shared a none");
    assert_eq!(home.run(&["run", "a", "-c", print]).text(), "exclusive a none");
    let done = home.run(&["run", "a", "--shared", "--json", "--", "true"]).exits(0).json_aside();
    assert_eq!((&done["mode"], &done["names"]), (&"shared".into(), &serde_json::json!(["a"])));
}

/// Goal: an operator sees each reader, and takes the lock away from one of them only.
#[test]
fn each_reader_is_shown_and_one_can_be_removed_by_its_token() {
    let home = Home::new();
    let acquire = |reason| home.run(&["acquire", "config", "--shared", "--reason", reason]).text();
    let (one, two) = (acquire("first"), acquire("second"));
    let text = home.run(&["status"]).text();
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("shared: ")).collect();
    assert!(rows.len() == 2 && text.contains("first") && text.contains("second"), "{text}");
    let seen = home.run(&["status", "config", "--json"]).exits(0).json();
    assert_eq!((&seen["mode"], &seen["held"]), (&"shared".into(), &true.into()));
    assert_eq!(seen["readers"].as_array().unwrap().len(), 2, "{seen}");
    assert!(!seen.to_string().contains(&one), "the token is a secret: {seen}");

    let shown = home.run(&["status", "config", "--show-token"]).text();
    for token in [&one, &two] {
        assert!(shown.contains(&format!("quorlock force-release config --token {token}")), "{shown}");
    }
    home.run(&["force-release", "config", "--token", &one, "--yes"]).exits(0).complains(&["taken away"]);
    home.run(&["force-release", "config", "--token", &one, "--yes"])
        .exits(79)
        .complains(&["is not held under that token"]);
    home.run(&["extend", "config", "--token", &one]).exits(79);
    home.run(&["extend", "config", "--token", &two]).exits(0);
    home.run(&["run", "config", "-n", "--", "true"]).exits(75);
    home.run(&["release", "config", "--token", &two]).exits(0);
    home.run(&["run", "config", "-n", "--", "true"]).exits(0);
}

#[test]
fn a_reader_that_would_wait_for_itself_as_a_writer_gets_help() {
    let home = Home::new();
    let bin = crate::harness::program().display();
    let again = format!("{bin} run a -n -- true");
    let done = home.run(&["run", "a", "--shared", "-c", &again]).exits(75);
    done.complains(&["would wait for itself"]);
}
