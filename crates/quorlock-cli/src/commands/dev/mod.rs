//! `quorlock dev`: real servers on this machine, to try things on.

mod command;
mod fleet;
mod program;
mod scratch;
mod server;

use crate::args::Dev;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::process::runtime;
use crate::output::Output;
use crate::process::signals::{Received, Signals, is_termination};
use fleet::Fleet;
use quorlock::{Locker, RestartGuard};
use scratch::Scratch;
use serde_json::json;
use std::time::Duration;

/// The variable that names the nodes.
const NODES: &str = "QUORLOCK_NODES";

/// Starts servers, says where they are, and stops them in the end.
pub(crate) fn dev(args: &Dev, output: Output) -> Result<Exit, Failure> {
    let program = program::find(args.server.as_deref())?;
    runtime::start()?.block_on(async {
        let mut signals = Signals::listen()?;
        let scratch = Scratch::make()?;
        let starting = async {
            let fleet = Fleet::start(&program, args.count, &scratch).await?;
            init(&fleet).await?;
            Ok::<_, Failure>(fleet)
        };
        // Servers that were started end with the fleet, also with one that was not completed.
        let mut fleet = tokio::select! {
            biased;
            signal = signals.termination() => return Ok(signal.into()),
            fleet = starting => fleet?,
        };
        if args.command.is_empty() {
            tell(&fleet, output)?;
            stay(&mut fleet, &mut signals, output).await;
            Ok(Exit::Success)
        } else {
            command::run(&args.command, &fleet.urls().join(","), &mut signals).await
        }
    })
}

/// Marks the servers as new: they are.
async fn init(fleet: &Fleet) -> Result<(), Failure> {
    let locker = Locker::builder()
        .nodes(fleet.urls())
        .restart_guard(RestartGuard::Strict)
        // Patience with a busy machine.
        .node_timeout(Duration::from_secs(2))
        .connect_timeout(Duration::from_secs(5))
        .build()?;
    for (node, marked) in locker.init_fresh_nodes().await {
        marked.map_err(|error| {
            Failure::new(Exit::CannotRun, "init", format!("server {node} cannot be marked as new: {error}"))
        })?;
    }
    Ok(())
}

fn tell(fleet: &Fleet, output: Output) -> Result<(), Failure> {
    let urls = fleet.urls().join(",");
    let nodes: Vec<_> =
        fleet.alive().map(|server| json!({ "url": server.url(), "pid": server.pid() })).collect();
    let line = format!("export {NODES}={urls}");
    for server in fleet.alive() {
        output.info(format_args!("{} runs as process {}", server.url(), server.pid()));
    }
    output.print(&json!({ "nodes": nodes, "environment": { NODES: urls } }), || line)?;
    output.info(
        "paste that line into another terminal, then try `quorlock doctor` and `quorlock run hello -- date`",
    );
    output.info("kill a process to see what a dead node does; Ctrl-C stops all");
    Ok(())
}

/// Waits until somebody ends us, or all servers have ended.
async fn stay(fleet: &mut Fleet, signals: &mut Signals, output: Output) {
    loop {
        match signals.next().await {
            Received::Signal(signal) if is_termination(signal) => return,
            Received::Signal(_) => {}
            Received::ChildChanged => {
                for ended in fleet.reap() {
                    output.info(format_args!("{ended} has ended"));
                }
                if fleet.alive().next().is_none() {
                    return;
                }
            }
        }
    }
}
