//! What the user sees: answers on stdout, our own words on stderr, one JSON object if asked for.

use crate::exit::Exit;
use crate::failure::Failure;
use anstyle::{AnsiColor, Style};
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// How to speak.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// One JSON object instead of text.
    pub(crate) json: bool,
    /// Nothing but errors.
    pub(crate) quiet: bool,
    /// Also what is not needed.
    pub(crate) verbose: bool,
}

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const HELP: Style = AnsiColor::Cyan.on_default();

/// Whether there is somebody who can be asked.
pub(crate) fn is_attended() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

impl Screen {
    /// Answers: the object for programs, or what `text` writes for people.
    ///
    /// # Errors
    /// It could not be written: a disk is full. A reader that went away (`| head`) is no error.
    pub(crate) fn answer(self, object: &Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
        match self.hand_over(object, || text().trim_end_matches('\n').to_owned()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                let message = format!("the answer could not be written: {error}");
                Err(Failure::new(Exit::CannotRun, "output", message))
            }
            _ => Ok(()),
        }
    }

    /// Answers with something that must not get lost.
    ///
    /// # Errors
    /// Nobody could read it.
    pub(crate) fn hand_over(self, object: &Value, text: impl FnOnce() -> String) -> io::Result<()> {
        let answer = if self.json { object.to_string() } else { text() };
        let mut out = anstream::stdout();
        writeln!(out, "{answer}")?;
        out.flush()
    }

    /// Tells programs what was done; people need no answer.
    pub(crate) fn object(self, object: &Value) {
        // It is done, whether the answer arrives or not.
        if self.json
            && let Err(failure) = self.answer(object, String::new)
        {
            self.complain(&failure);
        }
    }

    /// Tells people what happens. Not with JSON, and not when quiet.
    pub(crate) fn note(self, text: impl Display) {
        if !self.json && !self.quiet {
            let _ = writeln!(anstream::stderr(), "quorlock: {text}");
        }
    }

    /// Tells people what happens if they look on, or asked for it.
    pub(crate) fn remark(self, text: impl Display) {
        if self.verbose || io::stderr().is_terminal() {
            self.note(text);
        }
    }

    /// Tells people of something that they should know.
    pub(crate) fn warn(self, text: impl Display) {
        if !self.json {
            let _ = writeln!(anstream::stderr(), "quorlock: {WARNING}warning:{WARNING:#} {text}");
        }
    }

    /// Says what went wrong, to programs on stdout, to people on stderr, also if stdout cannot take it.
    pub(crate) fn fail(self, failure: &Failure) {
        if !self.json || writeln!(anstream::stdout(), "{}", failure.to_json()).is_err() {
            self.complain(failure);
        }
    }

    fn complain(self, failure: &Failure) {
        let mut err = anstream::stderr();
        let _ = writeln!(err, "quorlock: {ERROR}error:{ERROR:#} {}", failure.message());
        if let Some(help) = failure.advice() {
            let _ = writeln!(err, "  {HELP}help:{HELP:#} {help}");
        }
    }
}
