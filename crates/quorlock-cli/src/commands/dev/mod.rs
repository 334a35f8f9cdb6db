//! `quorlock dev`: Redis servers on this machine, for experiments.

mod command;
mod scratch_dir;
mod server;
mod server_program;
mod servers;

use crate::args::Dev;
use crate::output::Output;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::process::runtime;
use crate::process::signals::{Received, Signals, is_termination};
use crate::settings::NODES;
use quorlock::{Locker, NodeOutcome, RestartGuard};
use scratch_dir::ScratchDir;
use serde_json::json;
use servers::Servers;
use std::time::Duration;

/// Starts servers, prints their URLs, and stops them at the end.
pub(crate) fn dev(args: &Dev, output: Output) -> Result<Exit, Failure> {
    let program = server_program::find(args.server.as_deref())?;
    runtime::start()?.block_on(async {
        let mut signals = Signals::listen()?;
        let scratch = ScratchDir::create()?;
        let starting = async {
            let servers = Servers::start(&program, args.count, &scratch).await?;
            mark_as_new(&servers).await?;
            Ok::<_, Failure>(servers)
        };
        // Dropping `starting` ends the servers that it has started.
        let mut servers = tokio::select! {
            biased;
            signal = signals.termination() => return Ok(signal.into()),
            servers = starting => servers?,
        };
        if args.command.is_empty() {
            print_servers(&servers, output)?;
            wait_for_end(&mut servers, &mut signals, output).await;
            Ok(Exit::Success)
        } else {
            command::run(&args.command, &servers.urls().join(","), &mut signals).await
        }
    })
}

async fn mark_as_new(servers: &Servers) -> Result<(), Failure> {
    let locker = Locker::builder()
        .nodes(servers.urls())
        .restart_guard(RestartGuard::Strict)
        // Generous, for a busy machine.
        .node_timeout(Duration::from_secs(2))
        .connect_timeout(Duration::from_secs(5))
        .build()?;
    for report in locker.init_fresh_nodes().await {
        if let NodeOutcome::Failed(error) = report.outcome {
            let message = format!("server {} cannot be marked as new: {error}", report.node);
            return Err(Failure::new(Exit::CannotRun, "init", message));
        }
    }
    Ok(())
}

fn print_servers(servers: &Servers, output: Output) -> Result<(), Failure> {
    let urls = servers.urls().join(",");
    let nodes: Vec<_> =
        servers.running().map(|server| json!({ "url": server.url(), "pid": server.pid() })).collect();
    let line = format!("export {NODES}={urls}");
    for server in servers.running() {
        output.info(format_args!("{} runs as process {}", server.url(), server.pid()));
    }
    output.print(&json!({ "nodes": nodes, "environment": { NODES: urls } }), || line)?;
    output.info(
        "paste that line into another terminal, then try `quorlock doctor` and `quorlock run hello -- date`",
    );
    output.info("kill a process to see what a dead node does; Ctrl-C stops all servers");
    Ok(())
}

/// Waits until a signal ends us, or all servers have ended.
async fn wait_for_end(servers: &mut Servers, signals: &mut Signals, output: Output) {
    loop {
        match signals.next().await {
            Received::Signal(signal) if is_termination(signal) => return,
            Received::Signal(_) => {}
            Received::ChildChanged => {
                for ended in servers.reap() {
                    output.info(format_args!("{ended} has ended"));
                }
                if servers.running().next().is_none() {
                    return;
                }
            }
        }
    }
}
