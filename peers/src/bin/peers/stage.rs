//! The nodes of one trial: emptied servers, some of them replaced by troubled ones.

use crate::contestants::Contestant;
use crate::faults;
use crate::plan::{Cell, Trouble};
use crate::server::{Server, Servers};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How much later a slow node answers.
const SLOW_BY: Duration = Duration::from_millis(20);

pub struct Stage<'a> {
    servers: &'a [Server],
    pub urls: Vec<String>,
}

impl<'a> Stage<'a> {
    pub fn set(cell: &Cell, contestant: &Contestant, servers: &'a Servers) -> Result<Self> {
        let servers = servers.first(cell.nodes);
        servers.iter().try_for_each(Server::empty)?;
        let mut urls: Vec<String> = servers.iter().map(Server::url).collect();
        if let Some(program) = &contestant.init {
            init_nodes(program, &urls)?;
        }
        let url = |port| format!("redis://127.0.0.1:{port}");
        match cell.trouble {
            Trouble::None => {}
            Trouble::TwoMute => {
                urls[1] = url(faults::mute()?);
                urls[3] = url(faults::mute()?);
            }
            Trouble::OneSlow => urls[2] = url(faults::slow(servers[2].port, SLOW_BY)?),
        }
        Ok(Self { servers, urls })
    }

    /// What all servers have done so far.
    pub fn work(&self) -> Result<Work> {
        // The CPU of all comes first: asking a busy server takes a while.
        let cpu_us = self.servers.iter().map(Server::cpu_us).collect::<Result<_>>()?;
        let commands = self.servers.iter().map(Server::commands).sum::<Result<u64>>()?;
        Ok(Work { cpu_us, commands })
    }
}

/// What servers have done.
#[derive(Debug)]
pub struct Work {
    /// CPU of each server.
    cpu_us: Vec<u64>,
    commands: u64,
}

/// What servers have done in some time.
#[derive(Clone, Copy, Debug)]
pub struct WorkDone {
    pub cpu_us: u64,
    /// CPU of the server that used most.
    pub busiest_cpu_us: u64,
    pub commands: u64,
}

impl Work {
    pub fn since(&self, before: &Work) -> WorkDone {
        let used = || self.cpu_us.iter().zip(&before.cpu_us).map(|(after, before)| after - before);
        WorkDone {
            cpu_us: used().sum(),
            busiest_cpu_us: used().max().unwrap_or(0),
            commands: self.commands - before.commands,
        }
    }
}

fn init_nodes(program: &Path, urls: &[String]) -> Result<()> {
    let output = Command::new(program).args(["init-nodes", "--nodes", &urls.join(",")]).output()?;
    ensure!(output.status.success(), "nodes not fresh: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
