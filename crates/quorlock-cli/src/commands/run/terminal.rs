//! The terminal: the command has it while it runs in the foreground.

use crate::process::{process_group, signal_disposition};
use rustix::process::Pid;
use rustix::termios::{isatty, tcsetpgrp};
use std::fs::File;
use std::io;

/// How the command shares the terminal with us.
#[derive(Debug)]
pub(super) enum Terminal {
    /// There is no terminal, or we are in its background: the command gets a process group of its
    /// own.
    None,
    /// We are part of a pipeline in the foreground: the command stays in our process group, because
    /// other parts may read the terminal, too.
    Shared,
    /// We alone have the terminal: the command gets a process group of its own and the terminal.
    Ours(File),
}

impl Terminal {
    pub(super) fn find() -> Self {
        let Ok(terminal) = File::options().read(true).write(true).open("/dev/tty") else {
            return Terminal::None;
        };
        // Without a number for our group we could not reclaim the terminal.
        if process_group::own().is_none() {
            return Terminal::Shared;
        }
        if !process_group::is_in_foreground(&terminal) {
            return Terminal::None;
        }
        if isatty(io::stdin()) && isatty(io::stdout()) { Terminal::Ours(terminal) } else { Terminal::Shared }
    }

    /// For a command in a group of its own: the terminal, if the shell put us into the foreground.
    pub(super) fn regain() -> Self {
        match File::options().read(true).write(true).open("/dev/tty") {
            Ok(terminal) if process_group::is_in_foreground(&terminal) => Terminal::Ours(terminal),
            _ => Terminal::None,
        }
    }

    /// Whether the command gets a process group of its own.
    pub(super) fn gives_own_group(&self) -> bool {
        !matches!(self, Terminal::Shared)
    }

    /// Gives the terminal to the process group `group`.
    pub(super) fn give(&self, group: Pid) {
        if let Terminal::Ours(terminal) = self {
            // If this fails, the terminal is gone, and its HUP is on the way.
            let _ = signal_disposition::while_ignoring_sigttou(|| tcsetpgrp(terminal, group));
        }
    }

    /// Gives the terminal back to our own process group.
    pub(super) fn reclaim(&self) {
        if let Some(group) = process_group::own() {
            self.give(group);
        }
    }
}
