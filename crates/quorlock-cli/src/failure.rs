//! What went wrong, as one message: the cause, what to do about it, and the exit code.

use crate::duration;
use crate::exit::Exit;
use crate::shell;
use crate::text::plain_lines;
use quorlock::{
    AcquireError, ConfigError, ExtendError, Holder, InspectError, ListError, Name, NameError, NodeReport,
    Said,
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
        // It may quote an argument, a path or a configuration file.
        Self { exit, kind, message: plain_lines(&message.into()), help: None, details: Map::new() }
    }

    /// Something that the user wrote cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// Says what to do about it.
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

    /// Adds what the user should know besides, for programs.
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
                let for_another = left.map(|left| format!(" for another {}", duration::show(left)));
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
                let status = shell::line("status", &lock, None);
                let exit = if holder == Holder::Nobody { Exit::Contended } else { Exit::Busy };
                Self::new(exit, kind, message)
                    .help(format!("wait longer with --wait, or see who has it with `{status}`"))
                    .detail("name", lock.as_str())
                    .detail("holder", holder_json(&holder))
                    .detail("remaining_ms", millis(left))
            }
            AcquireError::Contended { lock, attempts, waited } => {
                let took = duration::show(waited);
                Self::new(
                    Exit::Contended,
                    kind,
                    format!(
                        "lock `{lock}` is contended: no client has a majority, after {attempts} attempts in {took}"
                    ),
                )
                .help("perhaps no client did the work: run it again, or wait longer with --wait")
                .detail("name", lock.as_str())
                .detail("attempts", attempts)
            }
            AcquireError::NoQuorum { lock, nodes, quorum, answered } => no_quorum(
                kind,
                format!("lock `{lock}` needs {quorum} nodes but only {answered} could vote"),
                &nodes,
            ),
            AcquireError::TooSlow { .. } => Self::new(Exit::NoQuorum, kind, message)
                .help("give a longer --ttl, or look at the nodes with `quorlock doctor`"),
            _ => Self::new(Exit::Busy, kind, message),
        }
    }
}

impl From<InspectError> for Failure {
    fn from(error: InspectError) -> Self {
        let message =
            format!("lock `{}` cannot be looked at: {} nodes must answer", error.lock, error.quorum);
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
                Self::new(Exit::Lost, "lost", message).detail("name", lost.lock.as_str())
            }
            ExtendError::NoQuorum { lock, nodes, .. } => no_quorum(
                "no_quorum",
                format!(
                    "lock `{lock}` was not extended: too few nodes did so; it is held until its old deadline"
                ),
                &nodes,
            ),
            ExtendError::Config(error) => error.into(),
            _ => Self::new(Exit::NoQuorum, "extend", message),
        }
    }
}

/// Too few nodes said that they let go of the lock.
pub(crate) fn unconfirmed(name: &Name, nodes: &[NodeReport]) -> Failure {
    let message = format!("the release of lock `{name}` is not confirmed; at the latest its ttl frees it");
    no_quorum("unconfirmed", message, nodes).detail("name", name.as_str()).detail("outcome", "unconfirmed")
}

/// Too few nodes could do their part; each says why on a line of its own.
fn no_quorum(kind: &'static str, message: String, nodes: &[NodeReport]) -> Failure {
    let lines: String = nodes.iter().map(|node| format!("\n  {node}")).collect();
    let is_new =
        nodes.iter().any(|node| matches!(&node.said, Said::Failed(cause) if cause.kind() == "quarantined"));
    let help = if is_new {
        "nodes that are new may vote at once after `quorlock init`; those that restarted must wait"
    } else {
        "`quorlock doctor` tells what is wrong with each node"
    };
    let nodes: Vec<Value> = nodes.iter().map(node_json).collect();
    Failure::new(Exit::NoQuorum, kind, format!("{message}:{lines}")).help(help).detail("nodes", nodes)
}

fn node_json(report: &NodeReport) -> Value {
    match &report.said {
        Said::Yes => json!({ "node": &*report.node, "said": "yes" }),
        Said::No => json!({ "node": &*report.node, "said": "no" }),
        Said::Failed(cause) => {
            json!({ "node": &*report.node, "said": "failed", "kind": cause.kind(), "cause": cause.to_string() })
        }
        _ => json!({ "node": &*report.node }),
    }
}

/// A holder for programs; its token only where it was asked for.
pub(crate) fn holder_json(holder: &Holder) -> Value {
    match holder {
        Holder::Owner { owner, fence, .. } => json!({
            "owner": owner.who, "pid": owner.pid, "reason": owner.reason, "fence": fence.get(),
            "since": owner.since.as_micros() / 1_000_000,
        }),
        Holder::Foreign(value) => json!({ "foreign": value }),
        _ => Value::Null,
    }
}

/// Milliseconds for programs; `null` if unknown.
pub(crate) fn millis(span: Option<std::time::Duration>) -> Value {
    span.map_or(Value::Null, |span| json!(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
}
