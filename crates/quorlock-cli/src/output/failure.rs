//! What went wrong, as one message: the cause, what to do about it, and the exit code.

use crate::output::duration::show;
use crate::output::exit_code::Exit;
use crate::output::sanitize::sanitize_lines;
use crate::output::{json, lock_view, shell_quote, subject};
use quorlock::{
    AcquireError, ConfigError, ExtendError, HeldName, Holder, InspectError, ListError, Name, NameError,
    NameSet, NodeOutcome, NodeReport,
};
use serde_json::{Map, Value, json};
use std::slice;
use std::time::Duration;

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
        match error {
            ConfigError::Name(error) => error.into(),
            error => Self::new(Exit::Usage, "config", error.to_string()),
        }
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
            AcquireError::Held { lock, holder, left, .. } => held(kind, &lock, &holder, left),
            AcquireError::NamesHeld { lock, held, .. } => names_held(kind, &lock, &held),
            AcquireError::NoPermit { lock, slots, .. } => no_permit(kind, &lock, slots),
            AcquireError::SlotsDiffer { lock, recorded } => Self::new(Exit::Usage, kind, message)
                .help(format!("give --slots {recorded}, as the clients that have a slot do"))
                .detail("name", lock.to_string())
                .detail("recorded", recorded),
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

/// Another client has the lock.
fn held(kind: &'static str, lock: &NameSet, holder: &Holder, left: Option<Duration>) -> Failure {
    let message = format!("lock `{lock}` is held by {}", holder_text(holder, left));
    let status = shell_quote::quorlock_command("status", slice::from_ref(lock.first()), None);
    let exit = if *holder == Holder::Unknown { Exit::Contended } else { Exit::Busy };
    Failure::new(exit, kind, message)
        .help(format!("wait longer with --wait, or see who has it with `{status}`"))
        .detail("name", lock.to_string())
        .detail("holder", json::holder(holder))
        .detail("remaining_ms", left.map(json::millis))
}

/// Other clients have some of several names.
fn names_held(kind: &'static str, lock: &NameSet, held: &[HeldName]) -> Failure {
    let one =
        |held: &HeldName| format!("`{}` is held by {}", held.name, holder_text(&held.holder, held.left));
    let listed: Vec<String> = held.iter().map(one).collect();
    let message = format!("locks `{lock}` cannot be held together: {}", listed.join("; "));
    // At least one holder is known to have a majority, or it is not certain that any client works.
    let is_busy = held.iter().any(|held| held.holder != Holder::Unknown);
    let status = held.first().map_or(lock.first(), |held| &held.name);
    let status = shell_quote::quorlock_command("status", slice::from_ref(status), None);
    let objects: Vec<Value> = held.iter().map(held_json).collect();
    let names: Vec<&str> = lock.iter().map(Name::as_str).collect();
    Failure::new(if is_busy { Exit::Busy } else { Exit::Contended }, kind, message)
        .help(format!("wait longer with --wait, or see who has it with `{status}`"))
        .detail("names", names)
        .detail("held", objects)
}

fn held_json(held: &HeldName) -> Value {
    json!({
        "name": held.name.as_str(),
        "holder": json::holder(&held.holder),
        "remaining_ms": held.left.map(json::millis),
    })
}

/// All slots of a semaphore are taken.
fn no_permit(kind: &'static str, lock: &NameSet, slots: u32) -> Failure {
    let verb = format!("status --slots {slots}");
    let status = shell_quote::quorlock_command(&verb, slice::from_ref(lock.first()), None);
    let message = match slots {
        1 => format!("semaphore `{lock}` has no free slot: the only one is taken"),
        _ => format!("semaphore `{lock}` has no free slot: all {slots} are taken"),
    };
    Failure::new(Exit::Busy, kind, message)
        .help(format!("wait longer with --wait, or see who has them with `{status}`"))
        .detail("name", lock.to_string())
        .detail("slots", slots)
}

/// A holder, how long it has the lock, and why.
fn holder_text(holder: &Holder, left: Option<Duration>) -> String {
    let for_another = left.map(|left| format!(" for another {}", show(left))).unwrap_or_default();
    let reason = match holder {
        Holder::Owner { owner, .. } => owner.reason.as_deref(),
        _ => None,
    };
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{}{for_another}{reason}", lock_view::holder_text(holder))
}

impl From<InspectError> for Failure {
    fn from(error: InspectError) -> Self {
        let lock = subject::phrase(slice::from_ref(&error.lock));
        let message = format!("{lock} cannot be inspected: {} nodes must answer", error.quorum);
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
                    "{} was not extended: too few nodes extended it; it is held until its old deadline",
                    subject::phrase(lock.as_slice())
                ),
                &nodes,
            ),
            ExtendError::Config(error) => error.into(),
            _ => Self::new(Exit::NoQuorum, "extend", message),
        }
    }
}

/// Too few nodes confirmed a release.
pub(crate) fn unconfirmed(names: &[Name], nodes: &[NodeReport]) -> Failure {
    let (lock, name) = (subject::phrase(names), names.first().map(subject::given_name));
    let message = format!("the release of {lock} is not confirmed; at the latest its ttl frees it");
    no_quorum("unconfirmed", message, nodes).detail("name", name).detail("outcome", "unconfirmed")
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
