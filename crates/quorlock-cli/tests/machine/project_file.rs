//! A project's configuration file that belongs to another user.

use crate::allows;
use crate::harness::{Answer, Home};
use crate::users::{ANN, BEN, GROUP, as_user, quorlock_in};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::Path;

const TEXT: &str = "wait = \"3s\"\n";

/// Whether we are root and may become others.
fn has_users() -> bool {
    let user = as_user(ANN);
    let user: Vec<&str> = user.iter().map(String::as_str).collect();
    allows("setpriv", &[&user[..], &["true"]].concat())
}

fn number(user: &str) -> Option<u32> {
    Some(user.parse().unwrap())
}

fn show(user: &'static str, dir: &Path) -> Answer {
    quorlock_in(user, dir, &["config", "show"]).end()
}

/// Goal: no user chooses the nodes of another one, and none those of root, whatever the mode of the
/// directory is.
#[test]
fn a_project_file_of_another_user_is_refused_in_any_directory() {
    if !has_users() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("quorlock.toml");
    fs::write(&file, TEXT).unwrap();
    for mode in [0o755, 0o1777] {
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode)).unwrap();
        for (owner, allowed) in [("0", vec!["0", ANN, BEN]), (ANN, vec![ANN]), (BEN, vec![BEN])] {
            chown(&file, number(owner), None).unwrap();
            for user in ["0", ANN, BEN] {
                let done = show(user, dir.path());
                if allowed.contains(&user) {
                    assert!(done.exits(0).out.contains("3s"), "{owner}'s for {user}");
                } else {
                    let words = ["quorlock.toml", "belongs to another user", "--config", "QUORLOCK_CONFIG"];
                    done.exits(2).complains(&words);
                }
            }
        }
    }
}

/// Goal: a link cannot lend its owner's trust to the file of another, nor the other way round.
#[test]
fn both_a_link_and_what_it_names_must_be_trusted() {
    if !has_users() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let (link, target) = (dir.path().join("quorlock.toml"), dir.path().join("target"));
    fs::write(&target, TEXT).unwrap();
    symlink(&target, &link).unwrap();
    for (link_of, target_of, code) in
        [("0", ANN, 0), (ANN, ANN, 0), (BEN, ANN, 2), (ANN, BEN, 2), ("0", BEN, 2)]
    {
        lchown(&link, number(link_of), None).unwrap();
        chown(&target, number(target_of), None).unwrap();
        show(ANN, dir.path()).exits(code);
    }
}

/// Goal: a secret that root lends to a group, as Kubernetes does, is no cause for a warning; one
/// that all may read is.
#[test]
fn a_file_of_root_with_a_password_may_be_read_by_a_group() {
    if !has_users() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let file = dir.path().join("quorlock.toml");
    fs::write(&file, "nodes = [\"redis://:hunter2@a\"]\n").unwrap();
    chown(&file, None, Some(GROUP)).unwrap();
    for (mode, warns) in [(0o440, false), (0o444, true)] {
        fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        let said = show(ANN, dir.path()).exits(0).err;
        assert_eq!(said.contains("chmod 640"), warns, "{mode:o}: {said}");
    }
}

/// Goal: a file that the user names is read, even if it belongs to another user.
#[test]
fn a_file_of_another_user_may_be_named() {
    if !has_users() {
        return;
    }
    let home = Home::new();
    let file = home.file("quorlock.toml");
    fs::write(&file, TEXT).unwrap();
    chown(&file, number(ANN), None).unwrap();
    home.run(&["run", "x", "--", "true"]).exits(2).complains(&["belongs to another user"]);
    home.run(&["run", "x", "--config", "quorlock.toml", "--", "true"]).exits(0);
    let named = home.command(&["run", "x", "--", "true"]).env("QUORLOCK_CONFIG", &file).output().unwrap();
    assert_eq!(named.status.code(), Some(0), "{named:?}");
}
