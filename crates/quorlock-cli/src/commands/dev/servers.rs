//! All servers.

use super::scratch::Scratch;
use super::server::Server;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use std::path::Path;

/// The servers that run. Dropping them ends them.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    servers: Vec<Server>,
    /// Where all of them are, also those that ended.
    urls: Vec<String>,
}

impl Fleet {
    /// Starts `count` servers, each in a directory of its own.
    pub(super) async fn start(program: &Path, count: u8, scratch: &Scratch) -> Result<Self, Failure> {
        let cannot = |error: std::io::Error| {
            let message = format!("the server `{}` cannot be started: {error}", program.display());
            Failure::new(Exit::CannotRun, "cannot_run", message)
        };
        let mut fleet = Self::default();
        for number in 1..=count {
            let dir = scratch.subdirectory(&number.to_string()).map_err(cannot)?;
            let server = Server::start(program, &dir).await.map_err(cannot)?;
            fleet.urls.push(server.url());
            fleet.servers.push(server);
        }
        Ok(fleet)
    }

    pub(super) fn urls(&self) -> &[String] {
        &self.urls
    }

    pub(super) fn alive(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter()
    }

    /// Removes those that have ended by themselves, and says where they were.
    pub(super) fn reap(&mut self) -> Vec<String> {
        let ended = self.servers.extract_if(.., Server::has_ended);
        ended.map(|server| server.url()).collect()
    }
}
