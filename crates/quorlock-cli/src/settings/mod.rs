//! Every setting with where it came from: flag, environment, project file, user file, system file,
//! default.

mod file;

use crate::args::{Global, OnLost};
use crate::output::Output;
use crate::output::failure::Failure;
use file::{ConfigFile, Contents};
use quorlock::node::{NodeUrl, split_list};
use quorlock::{Builder, ConfigError, Locker, RestartGuard};
use std::env;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The variable that names the nodes.
pub(crate) const NODES: &str = "QUORLOCK_NODES";
/// The variable that a command under `run` gets instead of a [`NODES`] with a password: without it
/// a `quorlock` in that command would silently lock within this machine.
const WITHHELD: &str = "QUORLOCK_NODES_WITHHELD";
/// The variable that names a configuration file.
const CONFIG: &str = "QUORLOCK_CONFIG";
/// For users who lock within one machine without knowing it: under cron the environment is empty.
const LOCAL_NOTICE: &str = "no nodes are configured, so the lock excludes only processes of this user on this machine; \
     name nodes in /etc/quorlock/config.toml or QUORLOCK_NODES, or give --nodes file: if this is what you want";

/// A value and where it came from.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) source: Source,
}

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Flag(&'static str),
    Environment(&'static str),
    File(PathBuf),
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag(flag) => f.write_str(flag),
            Source::Environment(variable) => write!(f, "environment {variable}"),
            Source::File(path) => path.display().fmt(f),
            Source::Default => f.write_str("default"),
        }
    }
}

/// All settings.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) nodes: Setting<Vec<String>>,
    pub(crate) require_nodes: Setting<bool>,
    pub(crate) ttl: Setting<Duration>,
    pub(crate) longest_ttl: Setting<Duration>,
    pub(crate) wait: Setting<Duration>,
    pub(crate) node_timeout: Setting<Option<Duration>>,
    pub(crate) connect_timeout: Setting<Duration>,
    pub(crate) drift: Setting<f64>,
    pub(crate) restart_guard: Setting<Option<RestartGuard>>,
    pub(crate) durable: Setting<bool>,
    pub(crate) allow_eviction: Setting<bool>,
    pub(crate) kill_grace: Setting<Option<Duration>>,
    pub(crate) on_lost: Setting<OnLost>,
    /// The configuration files that were read, in order of precedence.
    pub(crate) files: Vec<PathBuf>,
    /// Warnings about these files.
    pub(crate) warnings: Vec<String>,
}

impl Settings {
    /// Collects the settings that all commands share, and prints warnings about the files.
    ///
    /// # Errors
    /// A configuration file cannot be read or parsed; the error names file, line and key.
    pub(crate) fn collect(global: &Global, output: Output) -> Result<Self, Failure> {
        let settings = Self::read(global)?;
        settings.warnings.iter().for_each(|warning| output.warn(warning));
        Ok(settings)
    }

    fn read(global: &Global) -> Result<Self, Failure> {
        let given = global
            .config
            .clone()
            .or_else(|| env::var_os(CONFIG).filter(|path| !path.is_empty()).map(PathBuf::from));
        let layers = Layers(file::find(given.as_deref())?);
        let mut settings = Self {
            nodes: layers.or(|file| file.nodes.clone(), vec!["file:".to_owned()]),
            require_nodes: layers.or(|file| file.require_nodes, false),
            ttl: layers.or(|file| file.ttl.map(|span| span.0), Duration::from_secs(30)),
            longest_ttl: layers.or(|file| file.longest_ttl.map(|span| span.0), Duration::from_secs(30)),
            wait: layers.or(|file| file.wait.map(|span| span.0), Duration::from_secs(10)),
            node_timeout: layers.or(|file| file.node_timeout.map(|span| Some(span.0)), None),
            connect_timeout: layers
                .or(|file| file.connect_timeout.map(|span| span.0), Duration::from_secs(1)),
            drift: layers.or(|file| file.drift, 0.01),
            restart_guard: layers.or(|file| file.restart_guard.map(|guard| Some(guard.into())), None),
            durable: layers.or(|file| file.durable, false),
            allow_eviction: layers.or(|file| file.allow_eviction, false),
            kill_grace: layers.or(|file| file.kill_grace.map(|span| Some(span.0)), None),
            on_lost: layers.or(|file| file.on_lost, OnLost::Term),
            warnings: layers.0.iter().filter_map(ConfigFile::warning).collect(),
            files: layers.0.into_iter().map(|found| found.path).collect(),
        };
        if let Some(urls) = nodes_variable()? {
            settings.nodes = Setting { value: urls, source: Source::Environment(NODES) };
        }
        if !global.nodes.is_empty() {
            settings.nodes.set(Some(split_list(&global.nodes.join(","))), "--nodes");
        }
        settings.require_nodes.set(global.require_nodes.then_some(true), "--require-nodes");
        settings.longest_ttl.set(global.longest_ttl, "--longest-ttl");
        settings.node_timeout.set(global.node_timeout.map(Some), "--node-timeout");
        // A default ttl must not conflict with a longest ttl that the user chose.
        if settings.ttl.source == Source::Default && settings.longest_ttl.value < settings.ttl.value {
            settings.ttl = settings.longest_ttl.clone();
        }
        Ok(settings)
    }

    /// Refuses to lock within this machine if nodes are required.
    ///
    /// # Errors
    /// No nodes are configured, and a setting requires them.
    pub(crate) fn check_required_nodes(&self) -> Result<(), Failure> {
        if self.nodes.source != Source::Default {
            return Ok(());
        }
        if env::var_os(WITHHELD).is_some() {
            let message = format!(
                "no nodes are configured: `quorlock run` removed {NODES}, because it has a password in it"
            );
            return Err(Failure::usage(message).help(
                "name the nodes in a configuration file of mode 600, or give --nodes file: to lock within this machine",
            ));
        }
        if !self.require_nodes.value {
            return Ok(());
        }
        let required = &self.require_nodes.source;
        Err(Failure::usage(format!("no nodes are configured, but {required} requires them"))
            .help("name them with --nodes, in QUORLOCK_NODES, or as `nodes` in /etc/quorlock/config.toml"))
    }

    /// A notice if the lock seems to be meant for several machines (`is_shared`) but no nodes are
    /// configured. Prints it for people; the result is for programs.
    pub(crate) fn local_notice(&self, is_shared: bool, output: Output) -> Option<&'static str> {
        if !is_shared || output.quiet || self.nodes.source != Source::Default {
            return None;
        }
        output.info(LOCAL_NOTICE);
        Some(LOCAL_NOTICE)
    }

    /// A builder for a command that acquires no lock: it changes nothing on the nodes. Its ttl is
    /// not used, so it may be above the longest.
    pub(crate) fn read_only_builder(&self) -> Builder {
        self.builder().ttl(self.ttl.value.min(self.longest_ttl.value)).begin_epochs(false)
    }

    /// A builder with these settings. It does not connect yet.
    pub(crate) fn builder(&self) -> Builder {
        let mut builder = Locker::builder()
            .nodes(self.nodes.value.iter().map(String::as_str))
            .ttl(self.ttl.value)
            .longest_ttl(self.longest_ttl.value)
            .wait_timeout(self.wait.value)
            .drift_factor(self.drift.value)
            .durable(self.durable.value)
            .allow_eviction(self.allow_eviction.value);
        if let Some(timeout) = self.node_timeout.value {
            builder = builder.node_timeout(timeout);
        }
        // The library's default grows with the node timeout.
        if self.connect_timeout.source != Source::Default {
            builder = builder.connect_timeout(self.connect_timeout.value);
        }
        if let Some(guard) = self.restart_guard.value {
            builder = builder.restart_guard(guard);
        }
        builder
    }

    /// Refuses nodes that no other process can see: the lock would exclude no other client.
    ///
    /// # Errors
    /// A node is `memory:`.
    pub(crate) fn check_shared_nodes(&self) -> Result<(), Failure> {
        if !self.nodes.value.iter().any(|url| url.starts_with("memory:")) {
            return Ok(());
        }
        Err(Failure::usage("`memory:` is a node of one process: the lock would exclude no other client")
            .help("name servers, or `file:` to lock within this machine"))
    }

    /// Builds the locker from `builder`, which began as [`Settings::builder`].
    ///
    /// # Errors
    /// A setting cannot be used; the help names where the nodes came from.
    pub(crate) fn build(&self, builder: Builder) -> Result<Locker, Failure> {
        builder.build().map_err(|error| self.config_failure(error))
    }

    /// A setting that cannot be used, with where the nodes came from.
    pub(crate) fn config_failure(&self, error: ConfigError) -> Failure {
        let help = match &error {
            ConfigError::NoNodes
            | ConfigError::Quorum(_)
            | ConfigError::Url(_)
            | ConfigError::MixedKinds { .. }
            | ConfigError::ManyClusters { .. }
            | ConfigError::SameNode { .. }
            | ConfigError::Node { .. } => {
                format!(
                    "the nodes come from {}; `quorlock config show` lists all settings",
                    self.nodes.source
                )
            }
            _ => "`quorlock config show` lists all settings and where they come from".to_owned(),
        };
        Failure::from(error).help(help)
    }
}

impl<T> Setting<T> {
    /// Replaces the value by that of a flag, if it was given.
    pub(crate) fn set(&mut self, given: Option<T>, flag: &'static str) {
        if let Some(value) = given {
            *self = Self { value, source: Source::Flag(flag) };
        }
    }
}

/// The configuration files, in order of precedence.
struct Layers(Vec<ConfigFile>);

impl Layers {
    fn or<T>(&self, pick: impl Fn(&Contents) -> Option<T>, default: T) -> Setting<T> {
        let found = self.0.iter().find_map(|found| Some((pick(&found.contents)?, &found.path)));
        match found {
            Some((value, path)) => Setting { value, source: Source::File(path.clone()) },
            None => Setting { value: default, source: Source::Default },
        }
    }
}

/// Hides the passwords in [`NODES`] from `command`.
pub(crate) fn withhold_passwords(command: &mut Command) {
    let nodes = env::var_os(NODES).unwrap_or_default();
    if split_list(&nodes.to_string_lossy()).iter().any(|url| has_password(url)) {
        command.env_remove(NODES).env(WITHHELD, "1");
    }
}

/// Whether `url` has a password. A URL that cannot be parsed may have one.
fn has_password(url: &str) -> bool {
    match url.parse::<NodeUrl>() {
        Ok(url) => url.has_password(),
        Err(_) => url.contains('@') || url.contains("password="),
    }
}

/// The addresses in the environment, separated by commas; `None` if the variable is not set or
/// empty.
///
/// # Errors
/// The value is no list of addresses: falling back to other nodes would lock in the wrong place.
fn nodes_variable() -> Result<Option<Vec<String>>, Failure> {
    let Some(given) = env::var_os(NODES).filter(|given| !given.is_empty()) else { return Ok(None) };
    let Some(text) = given.to_str() else {
        return Err(Failure::usage(format!("{NODES} cannot be used: it is not UTF-8")));
    };
    let urls = split_list(text);
    if urls.is_empty() {
        return Err(Failure::usage(format!("{NODES} is set but names no node"))
            .help("unset it to lock within this machine, or list addresses: redis://a,redis://b,redis://c"));
    }
    Ok(Some(urls))
}
