//! The options that every command takes.

use crate::output::duration;
use clap::builder::StyledStr;
use clap::{Arg, Args, Command, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

/// The heading that sets these options apart from those of a command.
const HEADING: &str = "Global options";

/// Options that every command takes.
#[derive(Args, Debug)]
#[command(next_help_heading = HEADING)]
pub(crate) struct Global {
    /// Nodes that vote, separated by commas: redis://a,redis://b,redis://c
    ///
    /// 1, 3 or 5 independent servers, as redis://host:port, rediss:// (TLS), valkey:// or
    /// unix://path. Or one `etcd://host,host,host` (`etcds://` with TLS): a cluster is one node. Or
    /// `file:`, or `file:/directory`, which locks within this machine.
    #[arg(long, global = true, value_name = "URL", value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,

    /// Fail if no nodes are configured, instead of locking with file:
    #[arg(long, global = true)]
    pub(crate) require_nodes: bool,

    /// Read this configuration file and no other
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    /// How long one node may take to answer [default: 50ms]
    ///
    /// For all nodes but Redis and Valkey servers the default is a twentieth of the ttl, between 50ms
    /// and 500ms.
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) node_timeout: Option<Duration>,

    /// The longest ttl that any client of these nodes uses [default: 30s]
    ///
    /// A node that restarted does not vote for this time plus 10 s. All clients must use the same
    /// value.
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) longest_ttl: Option<Duration>,

    /// Print one JSON object
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Print only answers, warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print more messages
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// `command` with the global options as one line each in the long help of every command.
///
/// Clap gives each option of a long help three lines or more, which would be most of each page.
pub(super) fn summarized(command: Command) -> Command {
    let globals: Vec<Arg> = command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    let names: Vec<String> = globals.iter().map(names).collect();
    let width = names.iter().map(String::len).max().unwrap_or_default();
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let lines = globals.iter().zip(&names).map(|(arg, names)| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        format!("\n  {literal}{names:width$}{literal:#}  {help}")
    });
    let summary = format!("{header}{HEADING}:{header:#}{}", lines.collect::<String>());
    let command = command.mut_args(|arg| {
        let is_global = arg.is_global_set();
        arg.hide_long_help(is_global)
    });
    add_summary(command, &summary)
}

fn add_summary(command: Command, summary: &str) -> Command {
    let after = command.get_after_long_help().map(|after| format!("\n\n{}", after.ansi()));
    let after = StyledStr::from(format!("{summary}{}", after.unwrap_or_default()));
    command.after_long_help(after).mut_subcommands(|command| add_summary(command, summary))
}

/// `-q, --quiet`, or `    --nodes <URL>`.
fn names(arg: &Arg) -> String {
    let short = arg.get_short().map_or("    ".to_owned(), |short| format!("-{short}, "));
    let long = arg.get_long().unwrap_or_default();
    let value = arg.get_action().takes_values().then(|| arg.get_value_names()).flatten();
    let value = value.and_then(<[_]>::first).map(|name| format!(" <{name}>")).unwrap_or_default();
    format!("{short}--{long}{value}")
}
