//! Which server program runs: Redis 7, Redis 8 or Valkey 9.

use crate::contestants::here;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// A server that `--server` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ServerChoice {
    /// `redis-server` of the system, whatever its version.
    System,
    Redis7,
    Redis8,
    Valkey9,
    /// The first of Valkey 9, Redis 8 and Redis 7 that is here.
    Newest,
}

/// A program that runs here.
#[derive(Debug)]
pub struct ServerProgram {
    pub path: PathBuf,
    /// `Redis 7.0.15`
    pub version: String,
}

impl ServerChoice {
    /// The program; an error that names what is missing.
    pub fn find(self) -> Result<ServerProgram> {
        match self {
            ServerChoice::Newest => Self::newest(),
            ServerChoice::System => open(PathBuf::from("redis-server")),
            _ => {
                let found = self.candidates().into_iter().filter_map(|path| open(path).ok());
                let wanted = self.wanted();
                found.into_iter().find(|program| program.version.starts_with(wanted)).with_context(|| {
                    format!("there is no {}x here; peers/setup prepares what it can", wanted)
                })
            }
        }
    }

    fn newest() -> Result<ServerProgram> {
        for choice in [ServerChoice::Valkey9, ServerChoice::Redis8, ServerChoice::Redis7] {
            match choice.find() {
                Ok(program) => return Ok(program),
                Err(reason) => eprintln!("skipped a server: {reason:#}"),
            }
        }
        bail!("there is no server here; install redis-server")
    }

    /// What the version begins with.
    fn wanted(self) -> &'static str {
        match self {
            ServerChoice::Redis7 => "Redis 7.",
            ServerChoice::Redis8 => "Redis 8.",
            ServerChoice::Valkey9 => "Valkey 9.",
            ServerChoice::System | ServerChoice::Newest => "",
        }
    }

    fn candidates(self) -> Vec<PathBuf> {
        match self {
            ServerChoice::Valkey9 => {
                vec![PathBuf::from("valkey-server"), here().join("../interop/.deps/valkey/valkey-server")]
            }
            _ => vec![PathBuf::from("redis-server"), here().join(".deps/redis8/run")],
        }
    }
}

fn open(path: PathBuf) -> Result<ServerProgram> {
    let output = Command::new(&path).arg("--version").output();
    let output = output.with_context(|| format!("there is no {} here", path.display()))?;
    let version = version(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("{} does not print its version", path.display()))?;
    Ok(ServerProgram { path, version })
}

/// `Valkey 9.1.2` of what `--version` prints.
fn version(text: &str) -> Option<String> {
    let name = text.split_whitespace().next()?;
    let number = text.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    Some(format!("{name} {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_the_name_of_the_server() {
        assert_eq!(version("Redis server v=7.0.15 sha=0:0 malloc=jemalloc").as_deref(), Some("Redis 7.0.15"));
        assert_eq!(version("Valkey server v=9.1.2 sha=0:1").as_deref(), Some("Valkey 9.1.2"));
        assert_eq!(version("something else"), None);
    }

    #[test]
    fn a_server_of_the_system_runs_under_its_own_version_only() {
        let Ok(system) = ServerChoice::System.find() else {
            eprintln!("skipped: no redis-server here");
            return;
        };
        for choice in [ServerChoice::Redis7, ServerChoice::Redis8, ServerChoice::Valkey9] {
            if let Ok(program) = choice.find() {
                assert!(program.version.starts_with(choice.wanted()), "{program:?} for {choice:?}");
            }
        }
        assert!(system.version.starts_with("Redis ") || system.version.starts_with("Valkey "));
    }
}
