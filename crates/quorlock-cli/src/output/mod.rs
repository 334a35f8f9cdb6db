//! What the user sees: answers on stdout, messages on stderr, one JSON object if asked for.

pub(crate) mod duration;
pub(crate) mod exit_code;
pub(crate) mod failure;
pub(crate) mod json;
pub(crate) mod lock_json;
pub(crate) mod lock_view;
pub(crate) mod relative_time;
pub(crate) mod sanitize;
pub(crate) mod shell_quote;
pub(crate) mod slots_view;
pub(crate) mod subject;
pub(crate) mod table;

use anstyle::{AnsiColor, Style};
use exit_code::Exit;
use failure::Failure;
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// How to print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// One JSON object instead of text.
    pub(crate) json: bool,
    /// Only answers, warnings and errors.
    pub(crate) quiet: bool,
    /// Also messages that are otherwise printed only on a terminal.
    pub(crate) verbose: bool,
}

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const HELP: Style = AnsiColor::Cyan.on_default();

/// Whether a person can be asked: stdin and stderr are terminals.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

impl Output {
    /// Prints the answer: `object` with `--json`, otherwise `text`.
    ///
    /// # Errors
    /// It could not be written: a disk is full. A reader that went away (`| head`) is no error.
    pub(crate) fn print(self, object: &Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
        match self.try_print(object, || text().trim_end_matches('\n').to_owned()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                let message = format!("the answer could not be written: {error}");
                Err(Failure::new(Exit::CannotRun, "output", message))
            }
            _ => Ok(()),
        }
    }

    /// Prints an answer that must not get lost.
    ///
    /// # Errors
    /// It could not be written, or its reader went away.
    pub(crate) fn try_print(self, object: &Value, text: impl FnOnce() -> String) -> io::Result<()> {
        let answer = if self.json { object.to_string() } else { text() };
        let mut out = anstream::stdout();
        writeln!(out, "{answer}")?;
        out.flush()
    }

    /// Prints `object` with `--json`, otherwise nothing.
    pub(crate) fn print_json(self, object: &Value) {
        // The work is done, so an answer that cannot be written is no failure of the command.
        if self.json
            && let Err(failure) = self.print(object, String::new)
        {
            self.print_error(&failure);
        }
    }

    /// Prints what happens, unless `--json` or `--quiet`.
    pub(crate) fn info(self, text: impl Display) {
        if !self.json && !self.quiet {
            let _ = writeln!(anstream::stderr(), "quorlock: {text}");
        }
    }

    /// Prints what happens, if stderr is a terminal or `--verbose` was given.
    pub(crate) fn info_on_terminal(self, text: impl Display) {
        if self.verbose || io::stderr().is_terminal() {
            self.info(text);
        }
    }

    /// Prints a warning, unless `--json`.
    pub(crate) fn warn(self, text: impl Display) {
        if !self.json {
            let _ = writeln!(anstream::stderr(), "quorlock: {WARNING}warning:{WARNING:#} {text}");
        }
    }

    /// Prints what went wrong: an object on stdout with `--json`, otherwise, or if stdout fails,
    /// text on stderr.
    pub(crate) fn error(self, failure: &Failure) {
        if !self.json || writeln!(anstream::stdout(), "{}", failure.to_json()).is_err() {
            self.print_error(failure);
        }
    }

    fn print_error(self, failure: &Failure) {
        let mut err = anstream::stderr();
        let _ = writeln!(err, "quorlock: {ERROR}error:{ERROR:#} {}", failure.message());
        if let Some(help) = failure.advice() {
            let _ = writeln!(err, "  {HELP}help:{HELP:#} {help}");
        }
    }
}
