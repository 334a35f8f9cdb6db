//! Configuration files: where they are, and what they may contain.

use super::has_password;
use crate::args::OnLost;
use crate::output::duration::DurationSetting;
use crate::output::failure::Failure;
use quorlock::RestartGuard;
use rustix::process::geteuid;
use serde::Deserialize;
use std::env;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The name of a project's file.
const PROJECT_FILE: &str = "quorlock.toml";
/// The file of the machine. Unlike the others it is found under cron, where HOME may differ and the
/// working directory is no project.
const SYSTEM_FILE: &str = "/etc/quorlock/config.toml";
/// A larger file is no configuration file.
const MAX_SIZE: u64 = 1 << 20;

/// A configuration file that was read.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) contents: Contents,
    /// The mode that the file should have, if other users can read it.
    exposed: Option<&'static str>,
}

impl ConfigFile {
    /// A warning if other users can read a password in it.
    pub(super) fn warning(&self) -> Option<String> {
        let mode = self.exposed?;
        let path = self.path.display();
        let has_password = self.contents.nodes.iter().flatten().any(|url| has_password(url));
        has_password.then(|| {
            format!("the configuration file `{path}` holds a password and can be read by others; `chmod {mode}` it")
        })
    }
}

/// What a configuration file may contain. Every setting may be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contents {
    pub(super) nodes: Option<Vec<String>>,
    pub(super) require_nodes: Option<bool>,
    pub(super) ttl: Option<DurationSetting>,
    pub(super) longest_ttl: Option<DurationSetting>,
    pub(super) wait: Option<DurationSetting>,
    pub(super) node_timeout: Option<DurationSetting>,
    pub(super) connect_timeout: Option<DurationSetting>,
    pub(super) drift: Option<f64>,
    pub(super) restart_guard: Option<Guard>,
    pub(super) durable: Option<bool>,
    pub(super) allow_eviction: Option<bool>,
    pub(super) kill_grace: Option<DurationSetting>,
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

/// Reads the file that was `given`; without one the project's, the user's and the machine's, as far
/// as they exist.
pub(super) fn find(given: Option<&Path>) -> Result<Vec<ConfigFile>, Failure> {
    if let Some(path) = given {
        return Ok(vec![read(path, Owners::Any)?.ok_or_else(|| missing(path))?]);
    }
    let mut found = Vec::new();
    let project = project_file();
    for path in search_paths(project.clone(), user_file()) {
        // Only the project's file depends on the working directory, which another user may own.
        let owners = if Some(&path) == project.as_ref() { Owners::Trusted } else { Owners::Any };
        found.extend(read(&path, owners)?);
    }
    Ok(found)
}

/// Where configuration files are searched, in order of precedence.
fn search_paths(project: Option<PathBuf>, user: Option<PathBuf>) -> impl Iterator<Item = PathBuf> {
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

/// Whose files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owners {
    /// Files of any user: the user named the file.
    Any,
    /// Files of this user and of root. Another user's file could make us lock on other nodes.
    Trusted,
}

impl Owners {
    fn include(self, owner: u32) -> bool {
        self == Owners::Any || [0, geteuid().as_raw()].contains(&owner)
    }
}

fn not_trusted(path: &Path) -> Failure {
    let message = format!("the configuration file `{}` is not trusted", path.display());
    Failure::usage(format!("{message}: it, or the link to it, belongs to another user"))
        .help("name it with --config or QUORLOCK_CONFIG to use it; or go to another directory, or remove it")
}

fn user_file() -> Option<PathBuf> {
    let set = |variable| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let dir = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(dir.join("quorlock/config.toml"))
}

/// Reads one file; `None` if there is none.
fn read(path: &Path, owners: Owners) -> Result<Option<ConfigFile>, Failure> {
    let unreadable = |error: io::Error| {
        Failure::usage(format!("the configuration file `{}` cannot be read: {error}", path.display()))
    };
    // Otherwise opening a pipe may block for ever.
    let opened = fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(unreadable)?,
    };
    // Of the open file: another file may have its name by now.
    let data = file.metadata().map_err(unreadable)?;
    let link = fs::symlink_metadata(path).map_err(unreadable)?;
    if !owners.include(data.uid()) || !owners.include(link.uid()) {
        return Err(not_trusted(path));
    }
    if !data.is_file() {
        return Err(unreadable(io::Error::other("it is no regular file")));
    }
    if data.len() > MAX_SIZE {
        return Err(unreadable(io::Error::other("it is over 1 MiB")));
    }
    let text = io::read_to_string(file.take(MAX_SIZE)).map_err(unreadable)?;
    let contents = parse(&text).map_err(|cause| {
        Failure::usage(format!("the configuration file `{}` cannot be used: {cause}", path.display()))
            .help("settings and their meaning: quorlock config --help")
    })?;
    let is_ours = data.uid() == geteuid().as_raw();
    // We can read another user's file through its group (a secret of Kubernetes) or an ACL, which
    // shows as group bits.
    let readers = if is_ours { 0o044 } else { 0o004 };
    let exposed = (data.mode() & readers != 0).then_some(if is_ours { "600" } else { "640" });
    Ok(Some(ConfigFile { path: path.to_owned(), contents, exposed }))
}

fn parse(text: &str) -> Result<Contents, String> {
    toml::from_str(text).map_err(|error| without_secrets(error.to_string().trim_end()))
}

/// `cause` without the passwords in the lines that it quotes.
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
    fn the_file_of_the_machine_comes_last_and_is_read_without_a_home() {
        let all: Vec<PathBuf> = search_paths(Some("project".into()), Some("user".into())).collect();
        assert_eq!(all, [Path::new("project"), Path::new("user"), Path::new("/etc/quorlock/config.toml")]);
        let under_cron: Vec<PathBuf> = search_paths(None, None).collect();
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
