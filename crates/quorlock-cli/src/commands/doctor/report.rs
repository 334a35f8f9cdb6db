//! The report: a table of nodes, the findings, the verdict.

use super::finding::{Finding, Severity};
use super::node_state::NodeState;
use super::snapshot::{NodeSnapshot, Snapshot};
use super::ttl_advice::TtlAdvice;
use crate::output::duration::{show, show_fine};
use crate::output::exit_code::Exit;
use crate::output::{ERROR, HELP, WARNING, table};
use quorlock::node::{FastRelease, Recall};
use serde_json::{Value, json};
use std::time::Duration;

/// What the addresses of stores with a consensus of their own begin with.
const STORES: [&str; 3] = ["etcd", "consul", "zk"];

/// Everything that was found.
pub(super) struct Report<'a> {
    pub(super) snapshot: Snapshot<'a>,
    pub(super) findings: Vec<Finding>,
    pub(super) ttl: TtlAdvice,
}

impl Report<'_> {
    pub(super) fn exit(&self, strict: bool) -> Exit {
        if !self.has_quorum() {
            Exit::NoQuorum
        } else if strict && !self.is_healthy() {
            Exit::Warnings
        } else {
            Exit::Success
        }
    }

    pub(super) fn to_json(&self, strict: bool) -> Value {
        let nodes: Vec<Value> = self.snapshot.nodes.iter().map(node_json).collect();
        let status = match (self.has_quorum(), self.is_healthy()) {
            (false, _) => "no_quorum",
            (true, false) => "warnings",
            (true, true) => "healthy",
        };
        json!({
            "status": status,
            "verdict": self.verdict(),
            "quorum": self.snapshot.quorum.needed(),
            "can_vote": self.snapshot.voters(),
            "may_fail": self.snapshot.may_fail(),
            "nodes": nodes,
            "findings": self.findings,
            "ttl": self.ttl.to_json(),
            "exit_code": self.exit(strict).code(),
        })
    }

    pub(super) fn to_text(&self) -> String {
        let findings: Vec<String> = self.findings.iter().map(|finding| self.finding_text(finding)).collect();
        let style = match (self.has_quorum(), self.is_healthy()) {
            (false, _) => ERROR,
            (true, false) => WARNING,
            (true, true) => HELP,
        };
        let mut parts = vec![self.table()];
        parts.extend(findings);
        parts.push(self.ttl.to_text());
        parts.push(format!("{style}{}{style:#}", self.verdict()));
        parts.join("\n\n")
    }

    fn has_quorum(&self) -> bool {
        self.snapshot.voters() >= self.snapshot.quorum.needed()
    }

    fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == Severity::Note)
    }

    fn verdict(&self) -> String {
        let (voters, nodes) = (self.snapshot.voters(), self.snapshot.quorum.nodes());
        let plural = if nodes == 1 { "node" } else { "nodes" };
        if !self.has_quorum() {
            let needed = self.snapshot.quorum.needed();
            return format!("no quorum: {voters} of {nodes} {plural} can vote, {needed} needed");
        }
        let may_fail = match self.snapshot.may_fail() {
            _ if self.snapshot.store().is_some() => self.members(),
            _ if self.has_database() => "the server must be up".to_owned(),
            0 => "none may fail".to_owned(),
            count => format!("{count} may fail"),
        };
        let how = if self.is_healthy() {
            "healthy".to_owned()
        } else {
            let errors = self.count(Severity::Error);
            let warnings = self.count(Severity::Warning);
            format!("works, with {} and {}", counted(errors, "error"), counted(warnings, "warning"))
        };
        format!("{how}: {voters} of {nodes} {plural} can vote; {may_fail}")
    }

    fn has_database(&self) -> bool {
        self.snapshot.nodes.iter().any(|node| node.database().is_some())
    }

    /// How many members of a store must be up.
    fn members(&self) -> String {
        match self.snapshot.store().and_then(|store| store.members) {
            Some(1) => "it has one member, which must be up".to_owned(),
            Some(members) => format!("{} of its {members} members must be up", members / 2 + 1),
            None => "more than half of its members must be up".to_owned(),
        }
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    fn finding_text(&self, finding: &Finding) -> String {
        let (style, word) = match finding.severity {
            Severity::Error => (ERROR, "error"),
            Severity::Warning => (WARNING, "warning"),
            Severity::Note => (HELP, "note"),
        };
        let nodes = match finding.nodes.len() {
            0 => String::new(),
            count if count > 1 && count == self.snapshot.nodes.len() => " all nodes".to_owned(),
            _ => format!(" {}", finding.nodes.join(", ")),
        };
        let (code, what, why, remedy) = (&finding.code, &finding.what, &finding.why, &finding.remedy);
        format!("{style}{word}{style:#} [{code}]{nodes}: {what}\n  why  {why}\n  do   {remedy}")
    }

    fn table(&self) -> String {
        if self.snapshot.nodes.iter().any(|node| node.directory().is_some()) {
            return self.directory_table();
        }
        if self.snapshot.nodes.iter().any(|node| STORES.iter().any(|kind| node.name().starts_with(kind))) {
            return self.store_table();
        }
        if self.has_database() {
            return self.database_table();
        }
        let mut table = table::with(&[
            "NODE",
            "STATE",
            "ROUND TRIP",
            "CLOCK",
            "VERSION",
            "RELEASE",
            "AFTER RESTART",
            "EPOCH",
        ]);
        for node in &self.snapshot.nodes {
            let facts = node.server();
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            table.add_row([
                node.name().to_owned(),
                state(&node.state),
                or_dash(facts.and_then(|facts| facts.round_trip).map(show_fine)),
                or_dash(clock(node)),
                or_dash(facts.map(|facts| facts.version.clone())),
                or_dash(facts.map(|facts| release(facts.fast_release).to_owned())),
                or_dash(facts.map(|facts| recall(facts.recall).to_owned())),
                or_dash(facts.and_then(|facts| facts.epoch.as_ref()).map(|epoch| show(epoch.age))),
            ]);
        }
        table::text(&table)
    }

    fn store_table(&self) -> String {
        let mut table = table::with(&["NODE", "STATE", "ROUND TRIP", "VERSION", "MEMBERS", "DATA"]);
        for node in &self.snapshot.nodes {
            let facts = node.store();
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            table.add_row([
                node.name().to_owned(),
                state(&node.state),
                or_dash(facts.map(|facts| show_fine(facts.round_trip))),
                or_dash(facts.map(|facts| facts.version.clone())),
                or_dash(facts.and_then(|facts| facts.members).map(|members| members.to_string())),
                or_dash(
                    facts.filter(|facts| facts.size > 0).map(|facts| format!("{} KiB", facts.size >> 10)),
                ),
            ]);
        }
        table::text(&table)
    }

    fn database_table(&self) -> String {
        let mut table =
            table::with(&["NODE", "STATE", "ROUND TRIP", "CLOCK", "VERSION", "SCHEMA", "COMMITS"]);
        for node in &self.snapshot.nodes {
            let Some(facts) = node.database() else { continue };
            let schema = facts.schema_version.map(|version| format!("{} v{version}", facts.schema));
            table.add_row([
                node.name().to_owned(),
                state(&node.state),
                show_fine(facts.round_trip),
                clock(node).unwrap_or_else(|| "-".to_owned()),
                facts.version.clone(),
                schema.unwrap_or_else(|| "-".to_owned()),
                facts.synchronous_commit.clone(),
            ]);
        }
        table::text(&table)
    }

    fn directory_table(&self) -> String {
        let mut table = table::with(&["DIRECTORY", "STATE", "FILE SYSTEM", "FREE", "SYNC"]);
        for node in &self.snapshot.nodes {
            let Some(facts) = node.directory() else { continue };
            let free = facts.free_bytes.map(|bytes| format!("{} MiB", bytes >> 20));
            table.add_row([
                facts.path.clone(),
                state(&node.state),
                facts.file_system.clone().unwrap_or_else(|| "-".to_owned()),
                free.unwrap_or_else(|| "-".to_owned()),
                show_fine(facts.sync),
            ]);
        }
        table::text(&table)
    }
}

fn node_json(node: &NodeSnapshot) -> Value {
    let mut object = json!({
        "node": node.name(),
        "state": node.state.key(),
        "can_vote": node.state.can_vote(),
        "found": serde_json::to_value(&node.examination).map_or(Value::Null, |mut it| it["found"].take()),
    });
    if let Some(rate) = node.rate {
        object["clock_rate"] = json!({ "gain": rate.gain, "within": rate.within });
    }
    object
}

fn state(state: &NodeState) -> String {
    match state {
        NodeState::Votes => "votes".to_owned(),
        NodeState::NoEpoch => "new?".to_owned(),
        NodeState::Quarantined { left } => format!("quarantined {}", show(*left)),
        NodeState::Denied => "lacks rights".to_owned(),
        NodeState::Refused(cause) => format!("refused: {}", cause.kind().replace('_', " ")),
        NodeState::Silent(cause) => cause.kind().replace('_', " "),
    }
}

/// The offset of its clock to ours, and its rate if that was measured.
fn clock(node: &NodeSnapshot) -> Option<String> {
    let ahead = match node.database() {
        Some(database) => database.clock_ahead_micros?,
        None => node.server()?.clock_ahead_micros?,
    };
    let sign = if ahead < 0 { '-' } else { '+' };
    let offset = format!("{sign}{}", show_fine(Duration::from_micros(ahead.unsigned_abs())));
    Some(match node.rate {
        Some(rate) => format!("{offset} {:+.2}%", rate.gain * 100.0),
        None => offset,
    })
}

fn release(fast: Option<FastRelease>) -> &'static str {
    match fast {
        Some(FastRelease::Delex) => "DELEX",
        Some(FastRelease::Delifeq) => "DELIFEQ",
        _ => "script",
    }
}

fn recall(recall: Recall) -> &'static str {
    match recall {
        Recall::Everything => "knows all",
        Recall::AllButTheLastSave => "forgets its last save",
        Recall::AllButTheLastSecond => "loses 1s",
        Recall::Partly => "loses some",
        Recall::Nothing => "loses all",
        _ => "unknown",
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
