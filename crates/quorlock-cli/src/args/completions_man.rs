//! `quorlock completions` and `quorlock man`.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Print a completion script for a shell
///
/// Bash: quorlock completions bash > ~/.local/share/bash-completion/completions/quorlock
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page: `quorlock man | man -l -`
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Write one page per command into this directory instead
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}
