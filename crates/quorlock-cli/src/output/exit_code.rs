//! How `quorlock` ends: the exit codes, which are stable.

use rustix::process::Signal;
use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command did what it was asked to do.
    Success,
    /// `doctor --strict` found a warning or an error, or the user answered no.
    Warnings,
    /// The election has no leader.
    NoLeader,
    /// Bad flag, name, duration, URL or configuration file.
    Usage,
    /// Too few nodes can vote.
    NoQuorum,
    /// Another client kept the lock.
    Busy,
    /// The lock was not taken, and no other client is known to have it.
    Contended,
    /// The lock was lost while it was needed, or is not held under that token.
    Lost,
    /// The command was found but cannot be run.
    CannotRun,
    /// The command was not found.
    NotFound,
    /// The code that the command returned, or that the user chose.
    Code(u8),
    /// A signal ended the command, or us while we waited.
    Signal(u8),
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Warnings | Exit::NoLeader => 1,
            Exit::Usage => 2,
            Exit::NoQuorum => 69,
            Exit::Busy | Exit::Contended => 75,
            Exit::Lost => 79,
            Exit::CannotRun => 126,
            Exit::NotFound => 127,
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }
}

impl From<Signal> for Exit {
    fn from(signal: Signal) -> Self {
        Exit::Signal(u8::try_from(signal.as_raw()).unwrap_or(0))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}
