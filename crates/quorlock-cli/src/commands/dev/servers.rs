//! All servers of a `quorlock dev`.

use super::scratch_dir::ScratchDir;
use super::server::Server;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use std::path::Path;

/// The running servers. Dropping them ends them.
#[derive(Debug, Default)]
pub(super) struct Servers {
    running: Vec<Server>,
    /// The URLs of all servers, even of those that ended.
    urls: Vec<String>,
}

impl Servers {
    /// Starts `count` servers, each in a directory of its own.
    pub(super) async fn start(program: &Path, count: u8, scratch: &ScratchDir) -> Result<Self, Failure> {
        let cannot_start = |error: std::io::Error| {
            let message = format!("the server `{}` cannot be started: {error}", program.display());
            Failure::new(Exit::CannotRun, "cannot_run", message)
        };
        let mut servers = Self::default();
        for number in 1..=count {
            let dir = scratch.subdirectory(&number.to_string()).map_err(cannot_start)?;
            let server = Server::start(program, &dir).await.map_err(cannot_start)?;
            servers.urls.push(server.url());
            servers.running.push(server);
        }
        Ok(servers)
    }

    pub(super) fn urls(&self) -> &[String] {
        &self.urls
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &Server> {
        self.running.iter()
    }

    /// Removes servers that have ended by themselves, and returns their URLs.
    pub(super) fn reap(&mut self) -> Vec<String> {
        let ended = self.running.extract_if(.., Server::has_ended);
        ended.map(|server| server.url()).collect()
    }
}
