//! `quorlock init`: new nodes may vote at once.

mod plan;
mod raise_longest_ttl;
mod report;
mod safety_checks;

use crate::args::Init;
use crate::commands::doctor;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{Output, is_interactive};
use crate::process::runtime;
use crate::settings::{Setting, Settings};
use plan::Plan;
use quorlock::{NodeReport, RestartGuard};
use report::InitReport;
use std::io::{self, BufRead, Write};

/// Examines the nodes, asks for confirmation, marks the nodes that need it, and prints the result.
pub(crate) fn init(args: &Init, settings: &Settings, output: Output) -> Result<Exit, Failure> {
    runtime::start()?.block_on(async {
        if args.raise {
            return raise_longest_ttl::raise(settings, output).await;
        }
        let locker = settings.build(settings.read_only_builder())?;
        let plan = Plan::new(settings, locker.examine().await);
        if plan.to_mark().next().is_none() {
            return InitReport::new(&plan, Vec::new(), Vec::new()).print(output);
        }
        let warnings = safety_checks::warnings(settings, &plan).await;
        let is_asked = !args.yes;
        if is_asked && !is_interactive() {
            return Err(Failure::usage("there is no terminal to ask on whether the nodes are new")
                .help("if they are known to be new, confirm it with --yes")
                .detail("warnings", warnings));
        }
        if is_asked || !output.quiet {
            output.info(plan.intent(settings));
        }
        for warning in &warnings {
            output.warn(warning);
        }
        if is_asked && !is_confirmed() {
            return Err(Failure::new(Exit::Code(1), "declined", "nothing was changed"));
        }
        let marked = mark(settings, &plan).await?;
        InitReport::new(&plan, warnings, marked).print(output)
    })
}

/// Asks on the terminal. Only the whole word `yes` confirms.
fn is_confirmed() -> bool {
    let _ = write!(anstream::stderr(), "Are these nodes new, and may they vote at once? Type yes: ");
    let mut line = String::new();
    let _ = io::stdin().lock().read_line(&mut line);
    line.trim().eq_ignore_ascii_case("yes")
}

/// Marks only the nodes that need it: a node that votes would lose its epoch.
async fn mark(settings: &Settings, plan: &Plan) -> Result<Vec<NodeReport>, Failure> {
    let urls = plan.to_mark().map(|node| node.url.clone()).collect();
    let mut some = with_nodes(settings, urls, doctor::restart_guard(settings));
    // A shorter ttl than the other nodes have recorded would keep the new nodes from voting.
    some.longest_ttl.value = some.longest_ttl.value.max(plan.recorded_longest_ttl());
    let locker = some.build(some.read_only_builder())?;
    Ok(locker.init_fresh_nodes().await)
}

/// The same settings for other nodes.
fn with_nodes(settings: &Settings, urls: Vec<String>, guard: RestartGuard) -> Settings {
    let source = settings.nodes.source.clone();
    Settings {
        nodes: Setting { value: urls, source },
        restart_guard: Setting { value: Some(guard), source: settings.restart_guard.source.clone() },
        ..settings.clone()
    }
}
