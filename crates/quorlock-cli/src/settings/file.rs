//! Configuration files: where they are, and what stands in them.

use crate::args::OnLost;
use crate::duration::Span;
use crate::failure::Failure;
use quorlock::RestartGuard;
use rustix::process::geteuid;
use serde::Deserialize;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of a project's file.
const PROJECT_FILE: &str = "quorlock.toml";
/// The file of the machine. Unlike the others it is found under cron, too, where HOME may be another and the working
/// directory is no project.
const SYSTEM_FILE: &str = "/etc/quorlock/config.toml";
/// Larger files are none of ours.
const MAX_SIZE: u64 = 1 << 20;

/// A file that was read.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) contents: Contents,
}

/// What a configuration file may say. Everything may be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contents {
    pub(super) nodes: Option<Vec<String>>,
    pub(super) require_nodes: Option<bool>,
    pub(super) ttl: Option<Span>,
    pub(super) longest_ttl: Option<Span>,
    pub(super) wait: Option<Span>,
    pub(super) node_timeout: Option<Span>,
    pub(super) connect_timeout: Option<Span>,
    pub(super) drift: Option<f64>,
    pub(super) restart_guard: Option<Guard>,
    pub(super) durable: Option<bool>,
    pub(super) allow_eviction: Option<bool>,
    pub(super) kill_grace: Option<Span>,
    pub(super) on_lost: Option<OnLost>,
}

/// Whether restarted nodes are kept from voting.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Guard {
    Strict,
    Off,
}

impl From<Guard> for RestartGuard {
    fn from(guard: Guard) -> Self {
        match guard {
            Guard::Strict => RestartGuard::Strict,
            Guard::Off => RestartGuard::Off,
        }
    }
}

/// Reads the file that was `given`; without one the project's, the user's and the machine's, as far as they exist.
pub(super) fn find(given: Option<&Path>) -> Result<Vec<Found>, Failure> {
    if let Some(path) = given {
        return Ok(vec![read(path)?.ok_or_else(|| missing(path))?]);
    }
    let mut found = Vec::new();
    let project = project_file();
    if let Some(path) = project.as_deref().filter(|path| is_planted(path)) {
        let message = format!("the configuration file `{}` is not trusted", path.display());
        return Err(Failure::usage(format!("{message}: somebody else put it where anybody may write"))
            .help("remove it, or name the right one with --config or QUORLOCK_CONFIG"));
    }
    for path in places(project, user_file()) {
        found.extend(read(&path)?);
    }
    Ok(found)
}

/// Where settings are looked for, the strongest first.
fn places(project: Option<PathBuf>, user: Option<PathBuf>) -> impl Iterator<Item = PathBuf> {
    [project, user, Some(SYSTEM_FILE.into())].into_iter().flatten()
}

fn missing(path: &Path) -> Failure {
    Failure::usage(format!("the configuration file `{}` does not exist", path.display()))
}

/// The nearest `quorlock.toml`, here or in a directory above.
fn project_file() -> Option<PathBuf> {
    let here = env::current_dir().ok()?;
    here.ancestors().map(|dir| dir.join(PROJECT_FILE)).find(|path| path.exists())
}

/// Whether another user may have put `path` into a directory such as /tmp, to have us lock on nodes of their choice.
fn is_planted(path: &Path) -> bool {
    let Ok(file) = fs::symlink_metadata(path) else { return false };
    let is_open =
        path.parent().and_then(|dir| fs::metadata(dir).ok()).is_some_and(|dir| dir.mode() & 0o002 != 0);
    is_open && ![0, geteuid().as_raw()].contains(&file.uid())
}

fn user_file() -> Option<PathBuf> {
    let set = |variable| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let dir = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(dir.join("quorlock/config.toml"))
}

/// Reads one file; `None` if there is none.
fn read(path: &Path) -> Result<Option<Found>, Failure> {
    let unreadable = |error: io::Error| {
        Failure::usage(format!("the configuration file `{}` cannot be read: {error}", path.display()))
    };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
        // A pipe may never end, nor even open.
        Ok(data) if !data.is_file() => return Err(unreadable(io::Error::other("it is no regular file"))),
        Ok(data) if data.len() > MAX_SIZE => return Err(unreadable(io::Error::other("it is over 1 MiB"))),
        Ok(_) => {}
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let contents = parse(&text).map_err(|cause| {
        Failure::usage(format!("the configuration file `{}` cannot be used: {cause}", path.display()))
            .help("settings and their meaning: quorlock config --help")
    })?;
    Ok(Some(Found { path: path.to_owned(), contents }))
}

fn parse(text: &str) -> Result<Contents, String> {
    toml::from_str(text).map_err(|error| without_secrets(error.to_string().trim_end()))
}

/// A cause that quotes a line with an address, without the password in it.
fn without_secrets(cause: &str) -> String {
    let is_secret = |line: &str| line.contains("://") && (line.contains('@') || line.contains("password="));
    let lines = cause.lines().map(|line| match line.split_once("://") {
        Some((before, _)) if is_secret(line) => format!("{before}://..."),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_file_may_set_everything() {
        let text = r#"
            nodes = ["redis://a", "redis://b", "redis://c"]
            require_nodes = true
            ttl = "20s"
            longest_ttl = "1m"
            wait = "5s"
            node_timeout = "80ms"
            connect_timeout = "500ms"
            drift = 0.001
            restart_guard = "strict"
            durable = true
            allow_eviction = false
            kill_grace = "2s"
            on_lost = "kill"
        "#;
        let contents = parse(text).unwrap();
        assert_eq!(contents.nodes.unwrap().len(), 3);
        assert_eq!(contents.longest_ttl.unwrap().0, Duration::from_secs(60));
        assert_eq!(contents.on_lost, Some(OnLost::Kill));
    }

    #[test]
    fn the_file_of_the_machine_is_the_weakest_and_is_read_without_a_home() {
        let all: Vec<PathBuf> = places(Some("project".into()), Some("user".into())).collect();
        assert_eq!(all, [Path::new("project"), Path::new("user"), Path::new("/etc/quorlock/config.toml")]);
        let under_cron: Vec<PathBuf> = places(None, None).collect();
        assert_eq!(under_cron, [Path::new("/etc/quorlock/config.toml")]);
    }

    #[test]
    fn a_mistake_is_named_with_its_line_and_key() {
        for (text, line, key) in [
            ("ttl = \"20s\"\nlifetime = 3", "line 2", "lifetime"),
            ("ttl = 20", "line 1", "ttl"),
            ("\n\nttl = \"20\"", "line 3", "ttl"),
            ("nodes = \"redis://a\"", "line 1", "nodes"),
            ("on_lost = \"cry\"", "line 1", "on_lost"),
            ("ttl = ", "line 1", "ttl"),
        ] {
            let cause = parse(text).unwrap_err();
            assert!(cause.contains(line) && cause.contains(key), "{text}: {cause}");
        }
    }

    #[test]
    fn a_password_is_not_repeated() {
        for text in [
            r#"nodes = ["redis://:hunter2@a", 3]"#,
            r#"nodes = "redis://a,redis://b:hunter2@c""#,
            r#"nodes = ["redis://a?password=hunter2", "#,
        ] {
            let cause = parse(text).unwrap_err();
            assert!(!cause.contains("hunter2") && cause.contains("nodes = "), "{text}: {cause}");
        }
    }

    #[test]
    fn an_empty_file_sets_nothing() {
        assert!(parse("# nothing\n").unwrap().nodes.is_none());
    }
}
