//! A terminal, and a user who types there.

use crate::harness::Running;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::Write;
use std::process::Command;

/// What is typed and shown at one end, and what programs see at the other.
pub(crate) struct Terminal {
    user: File,
    program: File,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap().into_string().unwrap();
        let program = File::options().read(true).write(true).open(name).unwrap();
        Self { user: user.into(), program }
    }

    /// Starts `command` with stdin and stderr here.
    pub(crate) fn start(&self, command: &mut Command) -> Running {
        Running::new(command.stdin(self.end()).stderr(self.end()))
    }

    /// The end that programs see.
    pub(crate) fn end(&self) -> File {
        self.program.try_clone().unwrap()
    }

    /// Waits until `wanted` is shown.
    pub(crate) fn shows(&mut self, wanted: &str) -> String {
        Running::read_until(&mut self.user, wanted)
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.user.write_all(keys.as_bytes()).unwrap();
    }
}
