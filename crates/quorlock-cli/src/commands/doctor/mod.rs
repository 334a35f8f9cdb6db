//! `quorlock doctor`: the operations checklist as a tool.

mod clocks;
mod finding;
mod node;
mod node_error;
mod node_state;
mod permissions;
mod persistence;
mod quorum;
mod report;
mod semaphores;
mod snapshot;
mod ttl_advice;

pub(crate) use node_state::{NodeState, restart_guard};

use crate::args::Doctor;
use crate::output::Output;
use crate::output::duration::show;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::process::runtime;
use crate::settings::Settings;
use report::Report;
use snapshot::Snapshot;
use ttl_advice::TtlAdvice;

/// Examines the nodes and prints what is wrong with them.
pub(crate) fn doctor(args: &Doctor, settings: &Settings, output: Output) -> Result<Exit, Failure> {
    let locker = settings.build(settings.read_only_builder())?;
    if let Some(span) = args.clocks {
        output.info_on_terminal(format_args!("watching the clocks for {}", show(span)));
    }
    let snapshot = runtime::start()?.block_on(Snapshot::new(&locker, settings, args.clocks));
    let report = diagnose(snapshot, args);
    output.print(&report.to_json(args.strict), || report.to_text())?;
    Ok(report.exit(args.strict))
}

fn diagnose<'a>(snapshot: Snapshot<'a>, args: &Doctor) -> Report<'a> {
    let mut found: Vec<_> = snapshot.nodes.iter().flat_map(|node| node::findings(&snapshot, node)).collect();
    found.extend(clocks::findings(&snapshot));
    found.extend(quorum::findings(&snapshot));
    found.extend(semaphores::findings(&snapshot));
    let ttl = TtlAdvice::new(&snapshot, args.work);
    found.extend(ttl.finding());
    Report { findings: finding::arrange(found), ttl, snapshot }
}
