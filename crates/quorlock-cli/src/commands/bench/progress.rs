//! The progress bar.

use crate::output::Output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// A progress bar on stderr, if that is a terminal.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(output: Output, whole: Duration) -> Self {
        let is_seen = io::stderr().is_terminal() && !output.json && !output.quiet;
        let target = if is_seen { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(millis(whole)), target);
        // A template that cannot be parsed leaves the default bar.
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(super) fn show(&self, passed: Duration, cycles: u64) {
        self.0.set_position(millis(passed));
        self.0.set_message(format!("{cycles} cycles"));
    }

    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
