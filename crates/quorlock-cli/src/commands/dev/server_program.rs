//! Finds the server program, or says how to install one.

use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use std::env;
use std::path::{Path, PathBuf};

/// Server programs, in order of preference.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

const INSTALL: &str = "install one:
    Debian, Ubuntu   sudo apt install redis-server
    Fedora, RHEL     sudo dnf install valkey       (or redis)
    macOS            brew install redis
  or name the program with --server";

/// The program that was `given`, or the first that is in the path.
///
/// # Errors
/// There is none; the help says how to install one.
pub(super) fn find(given: Option<&Path>) -> Result<PathBuf, Failure> {
    match given {
        Some(path) => in_path(path)
            .ok_or_else(|| missing(format!("the server program `{}` was not found", path.display()))),
        None => PROGRAMS.iter().find_map(|name| in_path(Path::new(name))).ok_or_else(|| {
            missing("neither redis-server nor valkey-server is installed on this machine".to_owned())
        }),
    }
}

fn missing(message: String) -> Failure {
    Failure::new(Exit::NotFound, "not_found", message).help(INSTALL)
}

/// Searches the path for a name without a directory, as shells do.
fn in_path(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned());
    }
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(program)).find(|path| path.is_file())
}
