//! What our user is not allowed to do.

use super::finding::Finding;
use super::look::Look;
use quorlock::RestartGuard;
use quorlock::node::{Purpose, ServerFacts};
use std::collections::BTreeSet;

/// One finding for each purpose that lacks something.
pub(super) fn findings(look: &Look, facts: &ServerFacts) -> Vec<Finding> {
    let purposes = [
        Purpose::Locking,
        Purpose::RestartGuard,
        Purpose::Hints,
        Purpose::Reconnecting,
        Purpose::Listing,
        Purpose::Durability,
    ];
    purposes.into_iter().filter_map(|purpose| lacking(look, facts, purpose)).collect()
}

fn lacking(look: &Look, facts: &ServerFacts, purpose: Purpose) -> Option<Finding> {
    let denied: Vec<_> = facts.denied.iter().filter(|denial| denial.purpose == purpose).collect();
    if denied.is_empty() {
        return None;
    }
    let commands: BTreeSet<&str> = denied.iter().map(|denial| denial.command.as_str()).collect();
    let commands: Vec<&str> = commands.into_iter().collect();
    let user = facts.user.as_deref().unwrap_or("default");
    let is_unguarded = look.guard == RestartGuard::Off;
    let (finding, why) = match purpose {
        Purpose::Locking => (Finding::error("permissions"), "without it the server cannot vote"),
        Purpose::RestartGuard if is_unguarded => return None,
        Purpose::RestartGuard => (
            Finding::error("permissions"),
            "it cannot be told whether the server forgot locks, so it cannot vote",
        ),
        Purpose::Hints => (
            Finding::warning("permissions-hints"),
            "waiting clients are not woken; they look from time to time and get locks later",
        ),
        Purpose::Reconnecting => (
            Finding::warning("permissions-reconnect"),
            "a server that was stopped for a while may take a lock when it wakes, which then stays for a ttl",
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

/// The keys and channels that go with it.
fn keys(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Locking => "  (on ~quorlock:fence:* and the names that you lock)",
        Purpose::RestartGuard => "  (on ~quorlock:epoch)",
        Purpose::Hints => "  (on &quorlock:free:*)",
        _ => "",
    }
}
