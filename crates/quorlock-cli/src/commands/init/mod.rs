//! `quorlock init`: nodes that are known to be new may vote at once.

mod danger;
mod plan;
mod raise;
mod result;

use crate::args::Init;
use crate::commands::doctor;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::process::runtime;
use crate::output::{self, Output};
use crate::settings::{Setting, Settings};
use plan::Plan;
use quorlock::RestartGuard;
use quorlock::node::NodeError;
use result::Outcome;
use std::io::{self, BufRead, Write};

/// Looks at the nodes, asks, marks those that need it, and says how it went.
pub(crate) fn init(args: &Init, settings: &Settings, output: Output) -> Result<Exit, Failure> {
    runtime::start()?.block_on(async {
        if args.raise {
            return raise::raise(settings, output).await;
        }
        let locker = settings.build(settings.read_only_builder())?;
        let plan = Plan::new(settings, locker.examine().await);
        if plan.to_mark().next().is_none() {
            return result::tell(&Outcome::new(&plan, Vec::new(), Vec::new()), output);
        }
        let dangers = danger::find(settings, &plan).await;
        let is_asked = !args.yes;
        if is_asked && !output::is_interactive() {
            return Err(Failure::usage("there is no terminal to ask on whether the nodes are new")
                .help("if they are known to be new, say so with --yes")
                .detail("warnings", dangers));
        }
        if is_asked || !output.quiet {
            output.info(plan.intent(settings));
        }
        for danger in &dangers {
            output.warn(danger);
        }
        if is_asked && !agrees() {
            return Err(Failure::new(Exit::Code(1), "declined", "nothing was changed"));
        }
        let marked = mark(settings, &plan).await?;
        result::tell(&Outcome::new(&plan, dangers, marked), output)
    })
}

/// Only the word itself: a slip of the finger must not do.
fn agrees() -> bool {
    let _ = write!(anstream::stderr(), "Are these nodes new, and may they vote at once? Type yes: ");
    let mut line = String::new();
    let _ = io::stdin().lock().read_line(&mut line);
    line.trim().eq_ignore_ascii_case("yes")
}

/// What became of each node that was to be marked.
type Marked = Vec<(String, Result<(), NodeError>)>;

/// Marks just the nodes that need it: those that vote would forget what they know of their memory.
async fn mark(settings: &Settings, plan: &Plan) -> Result<Marked, Failure> {
    let mut some =
        only(settings, plan.to_mark().map(|node| node.url.clone()).collect(), doctor::guard(settings));
    // What the others have recorded, or they would keep the new ones out.
    some.longest_ttl.value = some.longest_ttl.value.max(plan.recorded());
    let locker = some.build(some.read_only_builder())?;
    Ok(locker.init_fresh_nodes().await)
}

/// The same settings for other nodes.
fn only(settings: &Settings, urls: Vec<String>, guard: RestartGuard) -> Settings {
    let source = settings.nodes.source.clone();
    Settings {
        nodes: Setting { value: urls, source },
        restart_guard: Setting { value: Some(guard), source: settings.restart_guard.source.clone() },
        ..settings.clone()
    }
}
