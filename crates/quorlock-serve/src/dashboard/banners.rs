//! Banners: what a reader of the dashboard should know at once.

use crate::dashboard::nodes::Node;
use quorlock::Quorum;
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// A clock that is off by more than this gets a banner.
const CLOCK_OFF_MS: f64 = 100.0;
/// The default drift factor.
const DEFAULT_DRIFT: f64 = 0.01;
/// A drift factor above this leaves too little of a lock's validity.
const MAX_DRIFT: f64 = 0.2;

/// How serious it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    Info,
    Warning,
    Critical,
}

/// Something that a reader of the dashboard should know at once.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Banner {
    /// A stable word: `nodes_down`, `quorum_at_risk`, `no_quorum`, `clock_drift`, `node_quarantined`,
    /// `lock_lost`, `no_nodes_guarded`.
    pub(crate) code: &'static str,
    pub(crate) severity: Severity,
    pub(crate) title: String,
    /// What happens.
    pub(crate) text: String,
    /// What to do.
    pub(crate) action: String,
}

/// The banners for `nodes`, the worst first. `lost` is a lock that was lost a moment ago, `ttl` the
/// default one.
pub(crate) fn banners(nodes: &[Node], quorum: Quorum, ttl: Duration, lost: Option<&str>) -> Vec<Banner> {
    let mut banners = Vec::new();
    banners.extend(votes(nodes, quorum));
    banners.extend(lost.map(lock_lost));
    banners.extend(quarantined(nodes));
    banners.extend(clocks(nodes, ttl));
    banners.extend(unguarded(nodes));
    banners
}

fn votes(nodes: &[Node], quorum: Quorum) -> Option<Banner> {
    let voting = nodes.iter().filter(|node| node.can_vote).count();
    let (all, needed) = (nodes.len(), quorum.needed());
    if voting < needed {
        return Some(Banner {
            code: "no_quorum",
            severity: Severity::Critical,
            title: format!("No quorum: {voting} of {all} nodes can vote, {needed} must"),
            text: "No lock can be acquired or extended; held locks end with their ttl.".to_owned(),
            action: remedy(nodes, ""),
        });
    }
    if voting == all {
        return None;
    }
    if voting == needed {
        return Some(Banner {
            code: "quorum_at_risk",
            severity: Severity::Warning,
            title: format!("One more failure stops all locks: {voting} of {all} nodes can vote"),
            text: format!("Locks work, but {needed} nodes are needed and no more are left to spare."),
            action: remedy(nodes, " now"),
        });
    }
    Some(Banner {
        code: "nodes_down",
        severity: Severity::Warning,
        title: format!("{} of {all} nodes cannot vote; continuing", all - voting),
        text: format!("Locks work: {voting} nodes can vote, {needed} must."),
        action: remedy(nodes, " soon"),
    })
}

/// How to get more votes. Nodes in quarantine are back already, and only need time.
fn remedy(nodes: &[Node], when: &str) -> String {
    let down = listed(nodes, |node| !node.can_vote && node.quarantine_ms.is_none());
    if down.is_empty() {
        let waiting = listed(nodes, |node| node.quarantine_ms.is_some());
        return format!("Wait for {waiting}. Do not restart other nodes meanwhile.");
    }
    format!("Bring back {down}{when}. `quorlock doctor` says what is wrong.")
}

fn lock_lost(name: &str) -> Banner {
    Banner {
        code: "lock_lost",
        severity: Severity::Warning,
        title: format!("Lock `{name}` was lost a moment ago"),
        text: "Its holder did not extend it in time, or a majority of nodes no longer has it.".to_owned(),
        action: "See the events for the reason; if its holder was too slow, give it a longer ttl.".to_owned(),
    }
}

fn quarantined(nodes: &[Node]) -> Option<Banner> {
    let left = nodes.iter().filter_map(|node| node.quarantine_ms).max()?;
    let which = listed(nodes, |node| node.quarantine_ms.is_some());
    Some(Banner {
        code: "node_quarantined",
        severity: Severity::Info,
        title: format!("{which} restarted or is new, and votes again in {} s", left.div_ceil(1000)),
        text: "It may have forgotten locks, so it does not vote until all of them are over.".to_owned(),
        action: "Nothing, if it restarted. Nodes that are all new may vote at once after `quorlock init`."
            .to_owned(),
    })
}

fn clocks(nodes: &[Node], ttl: Duration) -> Option<Banner> {
    let off = |node: &Node| node.clock_ahead_ms.map_or(0.0, f64::abs);
    let worst = nodes.iter().map(off).fold(0.0, f64::max);
    if worst <= CLOCK_OFF_MS {
        return None;
    }
    let which = listed(nodes, |node| off(node) > CLOCK_OFF_MS);
    Some(Banner {
        code: "clock_drift",
        severity: Severity::Warning,
        title: format!("The clock of {which} is off by up to {worst:.0} ms"),
        text: "A wrong clock does no harm, but a clock that is set or runs too fast ends locks early."
            .to_owned(),
        action: clock_advice(worst, ttl),
    })
}

/// Which drift factor covers a step by `off_ms` within one ttl.
fn clock_advice(off_ms: f64, ttl: Duration) -> String {
    let needed = (off_ms / ttl.as_secs_f64()).ceil() / 1000.0;
    let seconds = ttl.as_secs_f64();
    if needed <= DEFAULT_DRIFT {
        format!(
            "Set the clocks by NTP. The default `drift = 0.01` covers such a step with a ttl of {seconds} s."
        )
    } else if needed <= MAX_DRIFT {
        format!(
            "Set the clocks by NTP; until then set `drift = {needed}`, which covers such a step with a ttl of {seconds} s."
        )
    } else {
        format!(
            "Set the clocks by NTP while no locks are held: no drift factor covers such a step with a ttl of {seconds} s."
        )
    }
}

fn unguarded(nodes: &[Node]) -> Option<Banner> {
    let is_unguarded = !nodes.is_empty() && nodes.iter().all(|node| node.guarantee == "unguarded");
    is_unguarded.then(|| Banner {
        code: "no_nodes_guarded",
        severity: Severity::Warning,
        title: "No node is guarded against a restart".to_owned(),
        text: "A node that restarts without its data can give a lock to a second holder.".to_owned(),
        action: "Set `restart_guard = \"strict\"`, or make the nodes durable with `appendfsync always`."
            .to_owned(),
    })
}

fn listed(nodes: &[Node], wanted: impl Fn(&Node) -> bool) -> String {
    let named: Vec<&str> = nodes.iter().filter(|node| wanted(node)).map(|node| node.node.as_str()).collect();
    named.join(", ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    #[test]
    fn the_advice_names_the_drift_factor_to_set() {
        let seconds = Duration::from_secs;
        assert!(clock_advice(250.0, TTL).contains("default `drift = 0.01` covers"));
        assert!(clock_advice(900.0, TTL).contains("`drift = 0.03`"), "{}", clock_advice(900.0, TTL));
        assert!(clock_advice(910.0, TTL).contains("`drift = 0.031`"), "{}", clock_advice(910.0, TTL));
        assert!(clock_advice(5_000.0, seconds(5)).contains("no drift factor"));
    }

    fn node(number: usize, can_vote: bool) -> Node {
        Node {
            node: format!("n{number}"),
            up: can_vote,
            can_vote,
            round_trip_ms: None,
            clock_ahead_ms: None,
            quarantine_ms: None,
            version: None,
            guarantee: "restart-guarded",
            guarantee_text: "",
            epoch_age_ms: None,
            trouble: None,
            queue: 0,
        }
    }

    fn codes(nodes: &[Node], lost: Option<&str>) -> Vec<&'static str> {
        let quorum = Quorum::of(nodes.len()).unwrap();
        banners(nodes, quorum, TTL, lost).iter().map(|banner| banner.code).collect()
    }

    #[test]
    fn the_fewer_nodes_vote_the_more_severe_is_the_banner() {
        let expected =
            [vec![], vec!["nodes_down"], vec!["quorum_at_risk"], vec!["no_quorum"], vec!["no_quorum"]];
        for (down, expected) in expected.into_iter().enumerate() {
            let nodes: Vec<Node> = (0..5).map(|number| node(number, number >= down)).collect();
            assert_eq!(codes(&nodes, None), expected, "{down} down");
        }
        assert_eq!(codes(&[node(0, true)], None), [""; 0]);
    }

    #[test]
    fn a_node_in_quarantine_need_not_be_brought_back() {
        let mut nodes: Vec<Node> = (0..3).map(|number| node(number, number == 0)).collect();
        nodes[1].quarantine_ms = Some(1500);
        let action = |nodes: &[Node]| banners(nodes, Quorum::of(3).unwrap(), TTL, None).remove(0).action;
        assert!(action(&nodes).starts_with("Bring back n2."), "{}", action(&nodes));
        nodes[2].quarantine_ms = Some(1500);
        assert!(action(&nodes).starts_with("Wait for n1, n2."), "{}", action(&nodes));
    }

    #[test]
    fn clocks_restarts_losses_and_missing_guards_have_banners() {
        let mut nodes: Vec<Node> = (0..3).map(|number| node(number, true)).collect();
        nodes[1].clock_ahead_ms = Some(-250.0);
        nodes[2].quarantine_ms = Some(1500);
        nodes[2].can_vote = false;
        let shown = codes(&nodes, Some("a"));
        assert_eq!(shown, ["quorum_at_risk", "lock_lost", "node_quarantined", "clock_drift"]);
        nodes.iter_mut().for_each(|node| node.guarantee = "unguarded");
        assert!(codes(&nodes, None).contains(&"no_nodes_guarded"));
    }
}
