//! At most as many commands run as a semaphore has slots.

use crate::harness::{Home, Running};
use crate::{SOON, working};
use quorlock_testkit::{Servers, until_blocking};
use std::fs;
use std::process::Stdio;

/// Goal: five processes, two slots: never do more than two run, and no slot has two of them.
fn at_most_two_of_five_run(home: &Home) {
    // `mkdir` fails if another process has the same slot.
    let job = "mkdir slot.$QUORLOCK_SLOT || exit 9; ls -d slot.* | wc -l >> counts; sleep 0.3; rmdir slot.$QUORLOCK_SLOT";
    let args = ["run", "gpu", "--slots", "2", "--wait", "2m", "-c", job];
    let runs: Vec<Running> = (0..5).map(|_| home.start(&args)).collect();
    for run in runs {
        run.end().exits(0);
    }
    let counts = fs::read_to_string(home.file("counts")).unwrap();
    let counts: Vec<u32> = counts.lines().map(|line| line.trim().parse().unwrap()).collect();
    assert!(counts.len() == 5 && counts.iter().all(|count| *count <= 2), "{counts:?}");
}

#[test]
fn at_most_two_of_five_run_on_one_machine() {
    at_most_two_of_five_run(&Home::new());
}

#[test]
fn at_most_two_of_five_run_on_three_servers() {
    let servers = Servers::start(3);
    at_most_two_of_five_run(&Home::on(&servers));
}

#[test]
fn all_slots_taken_is_75_another_number_of_slots_is_2() {
    let home = Home::new();
    let _one = working(&home, &["gpu", "--slots", "1"]);
    let done = home.run(&["run", "gpu", "--slots", "1", "-n", "--", "true"]).exits(75);
    done.complains(&["semaphore `gpu` has no free slot", "quorlock status gpu --slots 1", "--wait"]);
    let error = home.run(&["run", "gpu", "--slots", "1", "-n", "--json", "--", "true"]).json_aside();
    assert_eq!((&error["error"]["kind"], &error["error"]["slots"]), (&"no_permit".into(), &1.into()));
    assert_eq!(home.run(&["run", "gpu", "--slots", "1", "--skip", "--", "echo", "ran"]).text(), "");
    home.run(&["run", "gpu", "--slots", "1", "-n", "-E", "9", "--", "true"]).exits(9);

    let done = home.run(&["run", "gpu", "--slots", "2", "-n", "--", "true"]).exits(2);
    done.complains(&["in use with 1 slots", "help: give --slots 1"]);
    let error = home.run(&["run", "gpu", "--slots", "2", "--json", "--", "true"]).exits(2).json_aside();
    assert_eq!((&error["error"]["kind"], &error["error"]["recorded"]), (&"slots_differ".into(), &1.into()));
}

/// Goal: status and watch name the semaphore and the slot, never the name that the nodes store.
#[test]
fn slots_are_shown_by_semaphore_and_number() {
    let home = Home::new();
    let mut run = working(&home, &["gpu", "--slots", "3"]);
    let taken = home.run(&["acquire", "gpu", "--slots", "3", "--reason", "train", "--json"]).exits(0).json();
    let slot = taken["slot"].as_u64().unwrap();
    assert_eq!((&taken["name"], &taken["mode"]), (&"gpu".into(), &"exclusive".into()));

    let slot_text = slot.to_string();
    for args in [&["status"][..], &["status", "gpu"], &["status", "gpu", "--slots", "3"]] {
        let text = home.run(args).text();
        assert!(text.contains(&format!("gpu slot {slot}")) && text.contains("train"), "{text}");
        assert!(!text.contains("quorlock:"), "{text}");
    }
    assert!(home.run(&["status", "gpu", "--slots", "3"]).text().contains("2 of 3 slots taken"));
    let seen = home.run(&["status", "--json"]).exits(0).json();
    let locks = seen["locks"].as_array().unwrap();
    assert!(locks.iter().all(|lock| lock["semaphore"] == "gpu" && lock["name"] == "gpu"), "{seen}");
    assert!(locks.len() == 2 && locks.iter().any(|lock| lock["slot"] == slot), "{seen}");
    let seen = home.run(&["status", "gpu", "--json"]).exits(0).json();
    assert_eq!((&seen["held"], seen["permits"].as_array().unwrap().len()), (&false.into(), 2));
    let one = home.run(&["status", "gpu", "--slot", &slot_text, "--json"]).exits(0).json();
    assert_eq!((&one["held"], &one["holder"]["reason"]), (&true.into(), &"train".into()));

    let mut watch = home.start(&["watch", "gpu", "--interval", "100ms"]);
    let line = watch.answers("\n");
    assert!(line.contains(&format!("`gpu slot {slot}` held by")), "{line}");
    run.signal(rustix::process::Signal::TERM);
    run.end().exits(143);
}

#[test]
fn a_permit_is_extended_and_released_by_slot_or_by_number_of_slots() {
    let home = Home::new();
    let acquire = || home.run(&["acquire", "gpu", "--slots", "2", "--json"]).exits(0).json();
    let (one, two) = (acquire(), acquire());
    assert_ne!(one["slot"], two["slot"]);
    let slot = one["slot"].to_string();
    let token = one["token"].as_str().unwrap();
    let extended = home.run(&["extend", "gpu", "--slot", &slot, "--token", token, "--json"]).exits(0).json();
    assert_eq!((&extended["slot"], &extended["fence"]), (&one["slot"], &one["fence"]));
    home.run(&["extend", "gpu", "--slots", "2", "--token", token]).exits(0);
    home.run(&["release", "gpu", "--slots", "2", "--token", token]).exits(0);
    home.run(&["release", "gpu", "--slots", "2", "--token", token])
        .exits(79)
        .complains(&["no slot of semaphore `gpu` is held under that token"]);
    home.run(&["release", "gpu", "--slot", &slot, "--token", token])
        .exits(79)
        .complains(&[&format!("slot {slot} of semaphore `gpu` was gone already")]);

    let slot = two["slot"].to_string();
    let token = two["token"].as_str().unwrap();
    let shown = home.run(&["status", "gpu", "--show-token"]).text();
    let command = format!("quorlock force-release gpu --slot {slot} --token {token}");
    assert!(shown.contains(&command), "{shown}");
    let args = ["force-release", "gpu", "--slot", &slot, "--token", token, "--yes"];
    home.run(&args).exits(0).complains(&[&format!("slot {slot} of semaphore `gpu` was taken away")]);
    assert_eq!(home.run(&["status"]).text(), "no lock is held");
}

#[test]
fn a_slot_that_is_lost_ends_its_command_and_is_named() {
    let home = Home::new();
    let mut command = home.command(&[
        "run",
        "gpu",
        "--slots",
        "2",
        "--max-hold",
        "1s",
        "--kill-grace",
        "100ms",
        "--",
        "sleep",
        "600",
    ]);
    let lost = Running::new(command.stdout(Stdio::null())).end().exits(79);
    assert!(
        lost.err.contains("of semaphore `gpu` was lost") && !lost.err.contains("quorlock:slot"),
        "{lost:?}"
    );
    until_blocking("both slots are free", SOON, || home.run(&["status"]).text() == "no lock is held");
}

/// An answer with a warning.
fn warns(home: &Home, args: &[&str], words: &[&str]) {
    let done = home.run(args).exits(0);
    assert!(words.iter().all(|word| done.err.contains(word)) && !done.out.is_empty(), "{args:?}: {done:?}");
}

/// Goal: operators see which number a refused client used, and what to do.
fn a_refused_client_is_reported(home: &Home) {
    let mut run = working(home, &["gpu", "--slots", "2"]);
    assert_eq!(home.run(&["status", "gpu"]).err, "");
    home.run(&["run", "gpu", "--slots", "3", "-n", "--", "true"]).exits(2);
    let words = [
        "a client that counts 3 slots of semaphore `gpu` was refused",
        "because 2 are recorded",
        "give that client 2 slots",
    ];
    for args in [&["status"][..], &["status", "gpu"]] {
        warns(home, args, &words);
    }
    assert!(home.run(&["status", "gpu"]).text().contains("1 of 2 slots taken"), "the nodes know the number");
    let status = home.run(&["status", "gpu", "--json"]).json();
    assert_eq!((&status["slots"], status["warnings"].as_array().unwrap().len()), (&2.into(), 1));
    let doctor = home.run(&["doctor", "--json"]).exits(0).json();
    let found = doctor["findings"].as_array().unwrap().iter().find(|found| found["code"] == "slots-differ");
    let found = found.unwrap_or_else(|| panic!("{doctor:#}"));
    assert!(found["what"].as_str().unwrap().contains(words[0]), "{found}");
    assert!(found["do"].as_str().unwrap().contains(words[2]), "{found}");

    run.signal(rustix::process::Signal::TERM);
    run.end().exits(143);
    home.run(&["run", "gpu", "--slots", "3", "-n", "--", "true"]).exits(0);
    let _three = working(home, &["gpu", "--slots", "3"]);
    assert_eq!(home.run(&["status"]).exits(0).err, "", "now all agree");
    assert!(home.run(&["status", "gpu"]).text().contains("1 of 3 slots taken"));
}

#[test]
fn a_refused_client_is_reported_on_one_machine() {
    a_refused_client_is_reported(&Home::new());
}

#[test]
fn a_refused_client_is_reported_on_three_servers() {
    let servers = Servers::start(3);
    a_refused_client_is_reported(&Home::on(&servers));
}

/// Goal: one node that missed a change of the number is reported, keeps no client out, and is corrected by the
/// next client.
#[test]
fn a_node_with_another_number_of_slots_is_reported_and_corrected() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let _holder = working(&home, &["gpu", "--slots", "2"]);
    servers[1].cli(&["SET", "quorlock:slots:{gpu}", "5"]);
    warns(&home, &["status", "gpu"], &["different numbers of slots for semaphore `gpu`", "2 on", "5 on"]);
    let doctor = home.run(&["doctor", "--json"]).exits(0).json();
    assert!(doctor["findings"].to_string().contains("slots-differ"), "{doctor:#}");
    home.run(&["run", "gpu", "--slots", "5", "-n", "--", "true"])
        .exits(2)
        .complains(&["in use with 2 slots"]);
    // A client that does not see the answer of that node in time does not correct it.
    until_blocking("the record is corrected", SOON, || {
        home.run(&["run", "gpu", "--slots", "2", "-n", "--", "true"]).exits(0);
        let record = servers[1].cli(&["GET", "quorlock:slots:{gpu}"]);
        record.split(' ').next() == Some("2")
    });
}
