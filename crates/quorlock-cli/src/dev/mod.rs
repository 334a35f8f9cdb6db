//! `quorlock dev`: real servers on this machine, to try things on.

mod command;
mod fleet;
mod program;
mod scratch;
mod server;

use crate::args::Dev;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::runtime;
use crate::screen::Screen;
use crate::signals::{Signals, Told, ends};
use fleet::Fleet;
use quorlock::{Locker, RestartGuard};
use scratch::Scratch;
use serde_json::json;
use std::time::Duration;

/// The variable that names the nodes.
const NODES: &str = "QUORLOCK_NODES";

/// Starts servers, says where they are, and stops them in the end.
pub(crate) fn dev(args: &Dev, screen: Screen) -> Result<Exit, Failure> {
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
            signal = signals.end() => return Ok(signal.into()),
            fleet = starting => fleet?,
        };
        if args.command.is_empty() {
            tell(&fleet, screen)?;
            stay(&mut fleet, &mut signals, screen).await;
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

fn tell(fleet: &Fleet, screen: Screen) -> Result<(), Failure> {
    let urls = fleet.urls().join(",");
    let nodes: Vec<_> =
        fleet.alive().map(|server| json!({ "url": server.url(), "pid": server.pid() })).collect();
    let line = format!("export {NODES}={urls}");
    for server in fleet.alive() {
        screen.note(format_args!("{} runs as process {}", server.url(), server.pid()));
    }
    screen.answer(&json!({ "nodes": nodes, "environment": { NODES: urls } }), || line)?;
    screen.note(
        "paste that line into another terminal, then try `quorlock doctor` and `quorlock run hello -- date`",
    );
    screen.note("kill a process to see what a dead node does; Ctrl-C stops all");
    Ok(())
}

/// Waits until somebody ends us, or all servers have ended.
async fn stay(fleet: &mut Fleet, signals: &mut Signals, screen: Screen) {
    loop {
        match signals.next().await {
            Told::Signal(signal) if ends(signal) => return,
            Told::Signal(_) => {}
            Told::Child => {
                for ended in fleet.reap() {
                    screen.note(format_args!("{ended} has ended"));
                }
                if fleet.alive().next().is_none() {
                    return;
                }
            }
        }
    }
}
