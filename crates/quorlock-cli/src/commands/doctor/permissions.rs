//! Commands that our user may not use on a server.

use super::finding::Finding;
use super::snapshot::Snapshot;
use quorlock::RestartGuard;
use quorlock::node::{Purpose, ServerFacts};
use std::collections::BTreeSet;

/// One finding for each purpose that lacks a permission.
pub(super) fn findings(snapshot: &Snapshot, facts: &ServerFacts) -> Vec<Finding> {
    let purposes = [
        Purpose::Locking,
        Purpose::RestartGuard,
        Purpose::Hints,
        Purpose::Reconnecting,
        Purpose::Listing,
        Purpose::Durability,
    ];
    purposes.into_iter().filter_map(|purpose| lacking(snapshot, facts, purpose)).collect()
}

fn lacking(snapshot: &Snapshot, facts: &ServerFacts, purpose: Purpose) -> Option<Finding> {
    let denied: Vec<_> = facts.denied.iter().filter(|denial| denial.purpose == purpose).collect();
    if denied.is_empty() {
        return None;
    }
    let commands: BTreeSet<&str> = denied.iter().map(|denial| denial.command.as_str()).collect();
    let commands: Vec<&str> = commands.into_iter().collect();
    let user = facts.user.as_deref().unwrap_or("default");
    let is_unguarded = snapshot.guard == RestartGuard::Off;
    let (finding, why) = match purpose {
        Purpose::Locking => (Finding::error("permissions"), "without it the server cannot vote"),
        Purpose::RestartGuard if is_unguarded => return None,
        Purpose::RestartGuard => (
            Finding::error("permissions"),
            "quorlock cannot detect whether the server forgot locks, so it cannot vote",
        ),
        Purpose::Hints => (
            Finding::warning("permissions-hints"),
            "waiting clients are not woken; they poll and get locks later",
        ),
        Purpose::Reconnecting => (
            Finding::warning("permissions-reconnect"),
            "a server that was stopped for a while may still execute an old acquire when it continues, and keep that lock for a ttl",
        ),
        Purpose::Listing => (Finding::note("permissions-list"), "locks cannot be listed"),
        _ => (Finding::note("permissions-config"), "what it remembers after a restart cannot be checked"),
    };
    let allow: Vec<String> =
        commands.iter().map(|command| format!("+{}", command.to_lowercase().replace(' ', "|"))).collect();
    Some(finding.what(format!("user `{user}` may not use {}", commands.join(", "))).why(why).remedy(format!(
        "ACL SETUSER {user} {}{}",
        allow.join(" "),
        keys(purpose)
    )))
}

/// The keys and channels of a purpose.
fn keys(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Locking => "  (on ~quorlock:fence:* and the names that you lock)",
        Purpose::RestartGuard => "  (on ~quorlock:epoch)",
        Purpose::Hints => "  (on &quorlock:free:*)",
        _ => "",
    }
}
