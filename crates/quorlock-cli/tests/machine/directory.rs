//! Directories that are missing, and what else lies in them.

use crate::harness::{Home, Running};
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs;

/// Goal: the directory of a held lock disappears, and the next command does not find the lock free
/// in a new one.
#[test]
fn a_named_directory_that_disappeared_is_an_error_and_no_free_lock() {
    let home = Home::new();
    let dir = home.file("ours");
    fs::create_dir(&dir).unwrap();
    let url = format!("file:{}", dir.display());
    let run = ["run", "x", "--nodes", url.as_str(), "--"];
    let mut holder = home.start(&[&run[..], &["sh", "-c", "echo held; exec sleep 600"]].concat());
    holder.answers("held\n");
    fs::remove_dir_all(&dir).unwrap();
    let refused = home.run(&[&run[..], &["touch", "second"]].concat()).exits(2);
    refused.complains(&[&format!("install -d -m 700 {}", dir.display())]);
    assert!(!home.file("second").exists() && !dir.exists());
}

/// Goal: only the default directory is created, at first use; a directory that the environment
/// names must exist.
#[test]
fn only_the_default_directory_is_made() {
    let home = Home::new();
    let missing = home.file("missing");
    let run = || home.command(&["run", "x", "--", "true"]);
    let named = Running::new(run().env("QUORLOCK_STATE_DIR", &missing)).end().exits(2);
    named.complains(&[missing.to_str().unwrap(), "must exist"]);
    assert!(!missing.exists());
    Running::new(run().env_remove("QUORLOCK_STATE_DIR")).end().exits(0);
    assert!(home.file("state/quorlock/x.lock").exists());
}

/// Goal: a pipe among the state files is waited for by no command.
#[test]
fn a_pipe_among_the_state_files_hangs_nothing() {
    let home = Home::new();
    home.run(&["acquire", "job"]).exits(0);
    mkfifoat(CWD, home.state_file("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    let shown = home.run(&["status"]).exits(0);
    assert!(shown.out.contains("job"), "{shown:?}");
    home.run(&["status", "pipe"]).exits(69).complains(&["pipe.lock", "no regular file"]);
    home.run(&["run", "pipe", "-n", "--", "true"]).exits(69).complains(&["pipe.lock"]);
    home.run(&["run", "other", "--", "true"]).exits(0);
}
