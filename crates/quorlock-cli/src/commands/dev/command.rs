//! A command that runs while the servers run.

use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::process::parent_death::spawn_with_parent_death_signal;
use crate::process::process_group;
use crate::process::signals::{Received, Signals};
use crate::settings::NODES;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};

/// Runs `line` with the nodes in its environment, forwards signals to it, and returns its exit
/// code.
///
/// # Errors
/// As in shells: exit 127 if there is no such command, 126 if it cannot be run.
pub(super) async fn run(line: &[OsString], nodes: &str, signals: &mut Signals) -> Result<Exit, Failure> {
    let Some((program, arguments)) = line.split_first() else { return Ok(Exit::Success) };
    let mut command = Command::new(program);
    command.args(arguments).env(NODES, nodes);
    let mut child = spawn_with_parent_death_signal(&mut command, None).map_err(|error| {
        let (exit, kind) = match error.kind() {
            ErrorKind::NotFound => (Exit::NotFound, "not_found"),
            _ => (Exit::CannotRun, "cannot_run"),
        };
        Failure::new(exit, kind, format!("cannot run `{}`: {error}", program.to_string_lossy()))
    })?;
    loop {
        if let Some(exit) = poll_exit(&mut child).map_err(cannot_wait)? {
            return Ok(exit);
        }
        if let Received::Signal(signal) = signals.next().await {
            forward(&child, signal);
        }
    }
}

fn poll_exit(child: &mut Child) -> io::Result<Option<Exit>> {
    let small = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    Ok(child.try_wait()?.map(|status| match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(small(code)),
        (None, signal) => Exit::Signal(small(signal.unwrap_or_default())),
    }))
}

fn cannot_wait(error: io::Error) -> Failure {
    Failure::new(Exit::CannotRun, "system", format!("cannot wait for the command: {error}"))
}

fn forward(child: &Child, signal: Signal) {
    // The terminal has sent these two to the command already: it is in our process group.
    if !([Signal::INT, Signal::QUIT].contains(&signal) && is_in_foreground()) {
        let _ = kill_process(Pid::from_child(child), signal);
    }
}

fn is_in_foreground() -> bool {
    File::open("/dev/tty").is_ok_and(process_group::is_in_foreground)
}
