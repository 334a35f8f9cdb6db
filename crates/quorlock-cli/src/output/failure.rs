//! What went wrong, as one message: the cause, what to do about it, and the exit code.

use crate::output::duration::show;
use crate::output::exit_code::Exit;
use crate::output::sanitize::sanitize_lines;
use crate::output::{json, shell_quote};
use quorlock::{
    AcquireError, ConfigError, ExtendError, Holder, InspectError, ListError, Name, NameError, NodeOutcome,
    NodeReport,
};
use serde_json::{Map, Value, json};

/// Why a command failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// A stable word for programs.
    kind: &'static str,
    message: String,
    help: Option<String>,
    details: Map<String, Value>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, kind: &'static str, message: impl Into<String>) -> Self {
        // The message may quote an argument, a path or a configuration file.
        Self { exit, kind, message: sanitize_lines(&message.into()), help: None, details: Map::new() }
    }

    /// An argument, a variable or a configuration file that cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a field for programs.
    #[must_use]
    pub(crate) fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a notice about the settings, for programs.
    #[must_use]
    pub(crate) fn notice(self, notice: Option<&str>) -> Self {
        match notice {
            Some(notice) => self.detail("notice", notice),
            None => self,
        }
    }

    /// Ends with another code.
    #[must_use]
    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn advice(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The object that programs get: `{"error": {...}}`.
    pub(crate) fn to_json(&self) -> Value {
        let mut error = Map::new();
        error.insert("kind".into(), self.kind.into());
        error.insert("message".into(), self.message.as_str().into());
        error.insert("exit_code".into(), self.exit.code().into());
        if let Some(help) = &self.help {
            error.insert("help".into(), help.as_str().into());
        }
        error.extend(self.details.clone());
        json!({ "error": error })
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(Exit::Usage, "config", error.to_string())
    }
}

impl From<NameError> for Failure {
    fn from(error: NameError) -> Self {
        Self::new(Exit::Usage, "name", error.to_string())
    }
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Self {
        let (kind, message) = (error.kind(), error.to_string());
        match error {
            AcquireError::Held { lock, holder, left, .. } => {
                let for_another = left.map(|left| format!(" for another {}", show(left)));
                let for_another = for_another.unwrap_or_default();
                let message = match &holder {
                    Holder::Owner { owner, .. } => {
                        let reason = owner.reason.as_deref().map(|reason| format!(": {reason}"));
                        let (who, pid) = (&owner.who, owner.pid);
                        format!(
                            "lock `{lock}` is held by {who} (pid {pid}){for_another}{}",
                            reason.unwrap_or_default()
                        )
                    }
                    other => format!("lock `{lock}` is held by {other}{for_another}"),
                };
                let status = shell_quote::quorlock_command("status", lock.first(), None);
                let exit = if holder == Holder::Unknown { Exit::Contended } else { Exit::Busy };
                Self::new(exit, kind, message)
                    .help(format!("wait longer with --wait, or see who has it with `{status}`"))
                    .detail("name", lock.to_string())
                    .detail("holder", json::holder(&holder))
                    .detail("remaining_ms", left.map(json::millis))
            }
            AcquireError::Contended { lock, attempts, waited } => {
                let took = show(waited);
                Self::new(
                    Exit::Contended,
                    kind,
                    format!(
                        "lock `{lock}` is contended: no client has a majority, after {attempts} attempts in {took}"
                    ),
                )
                .help("perhaps no client did the work: run it again, or wait longer with --wait")
                .detail("name", lock.to_string())
                .detail("attempts", attempts)
            }
            AcquireError::NoQuorum { lock, nodes, quorum, answered } => no_quorum(
                kind,
                format!("lock `{lock}` needs {quorum} nodes but only {answered} could vote"),
                &nodes,
            ),
            AcquireError::TooSlow { .. } => Self::new(Exit::NoQuorum, kind, message)
                .help("give a longer --ttl, or check the nodes with `quorlock doctor`"),
            AcquireError::Config { source, .. } => source.into(),
            _ => Self::new(Exit::Busy, kind, message),
        }
    }
}

impl From<InspectError> for Failure {
    fn from(error: InspectError) -> Self {
        let message =
            format!("lock `{}` cannot be inspected: {} nodes must answer", error.lock, error.quorum);
        no_quorum("no_quorum", message, &error.nodes)
    }
}

impl From<ListError> for Failure {
    fn from(error: ListError) -> Self {
        let message = error.to_string();
        match error {
            ListError::NoQuorum { quorum, nodes } => {
                no_quorum("no_quorum", format!("locks cannot be listed: {quorum} nodes must answer"), &nodes)
            }
            ListError::Inspect(error) => error.into(),
            _ => Self::new(Exit::NoQuorum, "list", message),
        }
    }
}

impl From<ExtendError> for Failure {
    fn from(error: ExtendError) -> Self {
        let message = error.to_string();
        match error {
            ExtendError::Lost(lost) => {
                Self::new(Exit::Lost, "lost", message).detail("name", lost.lock.to_string())
            }
            ExtendError::NoQuorum { lock, nodes, .. } => no_quorum(
                "no_quorum",
                format!(
                    "lock `{lock}` was not extended: too few nodes extended it; it is held until its old deadline"
                ),
                &nodes,
            ),
            ExtendError::Config(error) => error.into(),
            _ => Self::new(Exit::NoQuorum, "extend", message),
        }
    }
}

/// Too few nodes confirmed a release.
pub(crate) fn unconfirmed(name: &Name, nodes: &[NodeReport]) -> Failure {
    let message = format!("the release of lock `{name}` is not confirmed; at the latest its ttl frees it");
    no_quorum("unconfirmed", message, nodes).detail("name", name.as_str()).detail("outcome", "unconfirmed")
}

/// Too few nodes took part; each one's cause is on a line of its own.
fn no_quorum(kind: &'static str, message: String, nodes: &[NodeReport]) -> Failure {
    let lines: String = nodes.iter().map(|node| format!("\n  {node}")).collect();
    let is_new = nodes
        .iter()
        .any(|node| matches!(&node.outcome, NodeOutcome::Failed(cause) if cause.kind() == "quarantined"));
    let help = if is_new {
        "new nodes may vote at once after `quorlock init`; nodes that restarted must wait"
    } else {
        "`quorlock doctor` shows what is wrong with each node"
    };
    let nodes: Vec<Value> = nodes.iter().map(json::node_report).collect();
    Failure::new(Exit::NoQuorum, kind, format!("{message}:{lines}")).help(help).detail("nodes", nodes)
}
