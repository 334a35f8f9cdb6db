//! Commands that talk to a person keep the terminal.

use crate::harness::{Home, Running, program};
use std::process::{Command, Stdio};

/// Runs `line` of shell in a terminal of its own, types `typed`, and returns what the terminal
/// shows.
fn in_terminal(home: &Home, line: &str, typed: &str) -> String {
    let ours = home.command(&[]);
    // From outside of the terminal: what stops there would stop a limit of its own, too.
    let mut terminal = Command::new("timeout");
    terminal
        .args(["--signal=KILL", "100", "script", "-qec", line, "/dev/null"])
        .current_dir(home.path())
        .env_clear()
        .envs(ours.get_envs().filter_map(|(key, value)| Some((key, value?))))
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Running::new(&mut terminal);
    child.type_in(typed);
    child.end().out
}

#[test]
fn an_interactive_command_reads_from_the_terminal() {
    let home = Home::new();
    let line = format!("{} run x -c 'read name; echo hello $name'; echo code $?", program().display());
    let shown = in_terminal(&home, &line, "ann\n");
    assert!(shown.contains("hello ann") && shown.contains("code 0"), "{shown}");
}

/// Goal: where the process group of the shell has no number (a new pid namespace), the command
/// still gets what is typed.
#[test]
fn an_interactive_command_reads_from_the_terminal_in_a_new_pid_namespace() {
    let home = Home::new();
    let unshare = "unshare --pid --fork --kill-child";
    if !Command::new("sh").args(["-c", &format!("{unshare} true")]).status().is_ok_and(|done| done.success())
    {
        println!("skipped: this machine lets us make no pid namespace");
        return;
    }
    let line =
        format!("{unshare} {} run x -c 'read name; echo hello $name'; echo code $?", program().display());
    let shown = in_terminal(&home, &line, "ann\n");
    assert!(shown.contains("hello ann") && shown.contains("code 0"), "{shown}");
}

#[test]
fn the_command_is_in_the_foreground_and_the_terminal_comes_back() {
    let home = Home::new();
    let state = "ps -o stat= -p $$";
    let line = format!("{} run x -c '{state}'; {state}; read word; echo $word", program().display());
    let shown = in_terminal(&home, &line, "back\n");
    let states: Vec<&str> = shown.lines().filter(|line| line.starts_with(['S', 'R'])).collect();
    assert_eq!(states.len(), 2, "{shown}");
    assert!(states.iter().all(|state| state.contains('+')), "in the foreground: {shown}");
    assert!(shown.lines().any(|line| line.trim() == "back"), "{shown}");
}

/// A job in the background that wants to read is stopped with quorlock, and `fg` gives it the
/// terminal.
#[test]
fn a_command_in_the_background_gets_the_terminal_once_it_is_brought_to_the_foreground() {
    let home = Home::new();
    let run = format!("{} run x -c 'read word < /dev/tty; echo got $word'", program().display());
    let script =
        format!("set -m\n{run} &\nuntil jobs | grep -q Stopped; do sleep 0.05; done\nfg\necho code $?\n");
    std::fs::write(home.file("job.sh"), script).unwrap();
    let shown = in_terminal(&home, "timeout --foreground 30 bash job.sh", "word\n");
    assert!(shown.contains("got word") && shown.contains("code 0"), "{shown}");
}

#[test]
fn a_part_of_a_pipeline_leaves_the_terminal_to_the_others() {
    let home = Home::new();
    let reader = "sh -c \"cat; read word < /dev/tty; echo typed $word\"";
    let line = format!("{} run x -c 'echo through' | {reader}", program().display());
    let shown = in_terminal(&home, &line.replace("$word", "\\$word"), "hi\n");
    assert!(shown.contains("through") && shown.contains("typed hi"), "{shown}");
}
