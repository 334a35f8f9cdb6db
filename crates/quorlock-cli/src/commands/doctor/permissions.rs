//! Commands that our user may not use on a server.

use super::finding::Finding;
use super::snapshot::Snapshot;
use quorlock::RestartGuard;
use quorlock::node::{Denial, NodeError, Purpose, ServerFacts};
use std::collections::BTreeSet;

/// One finding for each purpose that lacks a permission.
pub(super) fn findings(snapshot: &Snapshot, facts: &ServerFacts) -> Vec<Finding> {
    let purposes = [
        Purpose::Locking,
        Purpose::RestartGuard,
        Purpose::SharedLocks,
        Purpose::Semaphores,
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
        Purpose::SharedLocks => (
            Finding::warning("permissions-shared"),
            "the server refuses clients that share a lock; exclusive locks work",
        ),
        Purpose::Semaphores => {
            (Finding::warning("permissions-semaphores"), "the server refuses permits; locks work")
        }
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
    let allow: BTreeSet<String> = denied.iter().map(|denial| grant(denial)).collect();
    let allow: Vec<String> = allow.into_iter().collect();
    let keys: BTreeSet<&str> = denied.iter().filter_map(|denial| prefix(denial)).collect();
    let on = match keys.into_iter().collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        keys => format!(" on {}", keys.join(", ")),
    };
    Some(
        finding
            .what(format!("user `{user}` may not use {}{on}", commands.join(", ")))
            .why(why)
            .remedy(format!("ACL SETUSER {user} {}", allow.join(" "))),
    )
}

/// What an ACL grants to allow what was denied: the command, or the keys or channels.
fn grant(denial: &Denial) -> String {
    match (is_about_command(denial), &denial.on) {
        (false, Some(on)) if on.starts_with("quorlock:free:") => "&quorlock:free:*".to_owned(),
        (false, Some(_)) => "~quorlock:*".to_owned(),
        _ => format!("+{}", denial.command.to_lowercase().replace(' ', "|")),
    }
}

/// Which keys or channels were denied, if the command as such was not.
fn prefix(denial: &Denial) -> Option<&str> {
    let on = denial.on.as_deref().filter(|_| !is_about_command(denial))?;
    // What follows the kind of key is the name that was tried.
    Some(on.match_indices(':').nth(1).map_or(on, |(end, _)| &on[..end]))
}

fn is_about_command(denial: &Denial) -> bool {
    !matches!(&denial.cause, NodeError::NoPermission { message } if !message.contains(" to run "))
}
