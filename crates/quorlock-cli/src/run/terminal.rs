//! Who has the terminal: the command, as long as it runs in the foreground.

use crate::{group, treatment};
use rustix::process::Pid;
use rustix::termios::{isatty, tcsetpgrp};
use std::fs::File;
use std::io;

/// How the command and the terminal get along.
#[derive(Debug)]
pub(super) enum Terminal {
    /// There is none, or we are in its background: the command gets a process group of its own.
    None,
    /// We are one part of a pipeline in the foreground: the command stays in our process group, as other parts may
    /// read the terminal, too.
    Shared,
    /// Ours alone: the command gets a process group of its own and the terminal with it.
    Ours(File),
}

impl Terminal {
    pub(super) fn find() -> Self {
        let Ok(terminal) = File::options().read(true).write(true).open("/dev/tty") else {
            return Terminal::None;
        };
        // Where our group has no number, the terminal could not be taken back.
        if group::own().is_none() {
            return Terminal::Shared;
        }
        if !group::is_in_foreground(&terminal) {
            return Terminal::None;
        }
        if isatty(io::stdin()) && isatty(io::stdout()) { Terminal::Ours(terminal) } else { Terminal::Shared }
    }

    /// For a command in a group of its own: the terminal, if the shell brought us to the foreground.
    pub(super) fn regain() -> Self {
        match File::options().read(true).write(true).open("/dev/tty") {
            Ok(terminal) if group::is_in_foreground(&terminal) => Terminal::Ours(terminal),
            _ => Terminal::None,
        }
    }

    /// Whether the command gets a process group of its own.
    pub(super) fn parts(&self) -> bool {
        !matches!(self, Terminal::Shared)
    }

    /// Gives the terminal to the process group `group`.
    pub(super) fn give(&self, group: Pid) {
        if let Terminal::Ours(terminal) = self {
            // Nothing to be done if it fails: the terminal is gone, and its HUP is on the way.
            let _ = treatment::in_spite_of_background(|| tcsetpgrp(terminal, group));
        }
    }

    /// Takes it back.
    pub(super) fn take_back(&self) {
        if let Some(group) = group::own() {
            self.give(group);
        }
    }
}
