//! What is on the disk when a lock is granted, as the kernel is asked for it.

use crate::allows;
use crate::harness::{Home, Running, program};
use std::fs;
use std::process::{Command, Stdio};

/// The system calls of `quorlock run x -- true` up to the start of the command, one per line, each
/// when it had returned.
fn traced(home: &Home) -> Vec<String> {
    let words = ["run", "x", "--", "true"];
    let ours = home.command(&words);
    let mut command = Command::new("strace");
    command
        // The paths of descriptors are shown; calls that another thread interrupts take two lines.
        .args([
            "-f",
            "-y",
            "-o",
            "trace",
            "-e",
            "trace=fsync,fdatasync,rename,renameat,renameat2,pwrite64,execve",
        ])
        .arg(program())
        .args(words)
        .current_dir(home.path())
        .envs(ours.get_envs().filter_map(|(key, value)| Some((key, value?))))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running::new(&mut command).end().exits(0);
    let text = fs::read_to_string(home.file("trace")).unwrap();
    let calls = text.lines().skip_while(|line| !line.contains("execve(")).skip(1).map(str::to_owned);
    join(calls).into_iter().take_while(|call| !call.contains("execve(")).collect()
}

/// Joins calls that take two lines, where they end.
fn join(lines: impl Iterator<Item = String>) -> Vec<String> {
    let (mut calls, mut begun) = (Vec::new(), Vec::<(String, String)>::new());
    for line in lines {
        let thread = line.split_whitespace().next().unwrap_or_default().to_owned();
        if let Some((call, _)) = line.split_once(" <unfinished") {
            begun.push((thread, call.to_owned()));
        } else if let Some((_, end)) = line.split_once(" resumed>") {
            let at = begun.iter().position(|(of, _)| *of == thread).unwrap();
            calls.push(begun.remove(at).1 + end);
        } else {
            calls.push(line);
        }
    }
    calls
}

/// Asserts that calls with all these words come in this order.
#[track_caller]
fn assert_order(calls: &[String], wanted: &[&[&str]]) {
    let mut rest = calls.iter();
    for words in wanted {
        let is_next = rest.any(|call| words.iter().all(|word| call.contains(word)) && call.contains("= "));
        assert!(is_next, "{words:?} is missing, or not in its place: {calls:#?}");
    }
}

/// Goal: S2 over a power cut. A fence is on the disk before the command that gets it starts; a new
/// file is on the disk whole before it gets its name, and its name before anything is granted by
/// it.
#[test]
fn what_a_grant_relies_on_is_on_the_disk_before_the_command_starts() {
    if !allows("strace", &["-o", "/dev/null", "true"]) {
        return;
    }
    let home = Home::new();
    let calls = traced(&home);
    let sync_of_directory: &[&str] = &["fsync(", "/locks>"];
    assert_order(
        &calls,
        &[
            &["fsync(", "/x.lock.new>"],
            &["rename", "/x.lock.new\"", "/x.lock\""],
            sync_of_directory,
            &["pwrite64(", "/x.lock>"],
            &["fdatasync(", "/x.lock>"],
        ],
    );
    let calls = traced(&home);
    assert_order(&calls, &[&["pwrite64(", "/x.lock>"], &["fdatasync(", "/x.lock>"]]);
    assert!(!calls.iter().any(|call| call.contains(".lock.new")), "made once: {calls:#?}");
}
