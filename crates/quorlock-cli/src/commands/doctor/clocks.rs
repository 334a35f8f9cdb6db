//! Clocks: the time that they show, and how fast they run.

use super::finding::Finding;
use super::snapshot::{ClockRate, Snapshot};
use crate::output::duration::show;
use std::time::Duration;

/// A larger difference is worth a warning, in microseconds.
const MAX_OFFSET: i64 = 100_000;
/// A larger drift factor leaves too little of a lock's ttl.
const MAX_DRIFT: f64 = 0.2;

/// The time that the clock of one node shows.
#[derive(Clone, Debug)]
struct ClockOffset<'a> {
    node: &'a str,
    /// How far it is ahead of ours, in microseconds.
    ahead: i64,
}

/// Findings about all clocks.
pub(super) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let offsets: Vec<ClockOffset> = snapshot
        .servers()
        .filter_map(|(node, facts)| Some(ClockOffset { node: node.name(), ahead: facts.clock_ahead_micros? }))
        .collect();
    let mut found = offset_findings(&offsets, snapshot.settings.ttl.value, snapshot.settings.drift.value);
    for node in &snapshot.nodes {
        let finding = node.rate.and_then(|rate| rate_finding(rate, snapshot.settings.drift.value));
        found.extend(finding.map(|finding| finding.on(node.name())));
    }
    found
}

/// Finds the clock that is wrong: that of a node, or ours if all nodes agree.
fn offset_findings(offsets: &[ClockOffset], ttl: Duration, drift: f64) -> Vec<Finding> {
    let middle = median(offsets.iter().map(|offset| offset.ahead));
    let agree = offsets.len() > 1 && offsets.iter().all(|offset| (offset.ahead - middle).abs() <= MAX_OFFSET);
    if agree && middle.abs() > MAX_OFFSET {
        let what = format!("the clock of this machine is {} all nodes, which agree", side(-middle));
        let remedy = remedy("this machine, or on the nodes", middle, ttl, drift);
        return vec![Finding::warning("clock-skew").what(what).why(WHY_US).remedy(remedy)];
    }
    offsets
        .iter()
        .filter_map(|offset| {
            let to_most = offset.ahead - middle;
            let has_others = offsets.len() > 2;
            let worst = if has_others && to_most.abs() > offset.ahead.abs() { to_most } else { offset.ahead };
            if worst.abs() <= MAX_OFFSET {
                return None;
            }
            let among =
                if has_others { format!(", and {} most nodes", side(to_most)) } else { String::new() };
            let what = format!("its clock is {} ours{among}", side(offset.ahead));
            let remedy = remedy("it", worst, ttl, drift);
            Some(Finding::warning("clock-skew").on(offset.node).what(what).why(WHY).remedy(remedy))
        })
        .collect()
}

const WHY: &str = "locks depend on how fast clocks run, not on the time that they show, so a difference alone does no \
harm. But NTP does not keep such a clock, and a correction in one step forward ends locks on that node too early by as \
much";

const WHY_US: &str = "either this machine is wrong, or all nodes are. Locks do not use the wall clock of clients; fences \
use it, within 5 s, after all nodes forgot theirs. If the nodes are wrong, a correction in one step forward ends locks \
too early by as much";

fn remedy(whose: &str, offset: i64, ttl: Duration, drift: f64) -> String {
    let needed = factor(offset.unsigned_abs() as f64 / 1e6 / ttl.as_secs_f64());
    let ttl = show(ttl);
    let until_then = if needed <= drift {
        format!("the drift factor of {drift} covers such a step with a ttl of {ttl}: keep it")
    } else if needed <= MAX_DRIFT {
        format!(
            "until then set drift = {needed} in quorlock.toml, which covers such a step with a ttl of {ttl}"
        )
    } else {
        format!("no drift factor covers such a step with a ttl of {ttl}, so do it while no locks are held")
    };
    format!("fix NTP on {whose} (`chronyc tracking`, `timedatectl`); {until_then}")
}

/// A clock whose rate differs by more than the drift factor.
fn rate_finding(rate: ClockRate, drift: f64) -> Option<Finding> {
    if rate.gain.abs() - rate.within <= drift {
        return None;
    }
    let needed = factor(rate.gain.abs() + rate.within);
    let (percent, way) = (rate.gain.abs() * 100.0, if rate.gain > 0.0 { "fast" } else { "slow" });
    let remedy = if needed <= MAX_DRIFT {
        format!("fix NTP on it; until then set drift = {needed} in quorlock.toml for all clients")
    } else {
        "take it out until its clock is fixed: no drift factor covers that".to_owned()
    };
    Some(
        Finding::error("clock-rate")
            .what(format!("its clock runs {percent:.1} % too {way} by ours; the drift factor allows {drift}"))
            .why("locks on it end sooner than their holders expect, and two clients may hold one lock")
            .remedy(remedy),
    )
}

/// A fraction, rounded up to thousandths.
fn factor(share: f64) -> f64 {
    (share * 1000.0).ceil() / 1000.0
}

/// `1.2s ahead of`, `250ms behind`.
fn side(ahead: i64) -> String {
    let span = Duration::from_micros(ahead.unsigned_abs());
    let exact = if span < Duration::from_millis(1) { format!("{}µs", span.as_micros()) } else { show(span) };
    format!("{exact} {}", if ahead < 0 { "behind" } else { "ahead of" })
}

fn median(values: impl Iterator<Item = i64>) -> i64 {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(aheads: &[i64], ttl_s: u64) -> Vec<(Vec<String>, String, String)> {
        let names = ["a", "b", "c", "d", "e"];
        let offsets: Vec<ClockOffset> =
            names.iter().zip(aheads).map(|(node, ahead)| ClockOffset { node, ahead: ahead * 1000 }).collect();
        let found = offset_findings(&offsets, Duration::from_secs(ttl_s), 0.01);
        found.into_iter().map(|it| (it.nodes, it.what, it.remedy)).collect()
    }

    #[test]
    fn clocks_that_differ_by_little_are_fine() {
        assert_eq!(found(&[0, 90, -90, 3, 2], 30), []);
        assert_eq!(found(&[], 30), []);
        assert_eq!(found(&[99], 30), []);
    }

    #[test]
    fn the_clock_that_is_wrong_is_named_with_the_factor_that_covers_it() {
        for (ahead, ttl, drift) in [
            (600, 30, "drift = 0.02 "),
            (610, 30, "drift = 0.021 "),
            (-1990, 10, "drift = 0.2 "),
            (200, 30, "factor of 0.01 covers"),
            (60_000, 30, "no drift factor"),
        ] {
            let found = found(&[1, ahead, 2, 0, 1], ttl);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].0, ["b"]);
            assert!(found[0].2.contains(drift), "{ahead}: {}", found[0].2);
        }
    }

    #[test]
    fn one_wrong_clock_of_three_does_not_make_the_others_look_wrong() {
        for at in 0..3 {
            let mut aheads = [0; 3];
            aheads[at] = 2500;
            let found = found(&aheads, 30);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].0, [["a", "b", "c"][at]]);
        }
    }

    #[test]
    fn if_all_others_agree_it_is_our_clock() {
        let found = found(&[-900, -901, -899], 30);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, [""; 0]);
        assert!(found[0].1.starts_with("the clock of this machine is 900ms ahead of all"), "{}", found[0].1);
    }

    #[test]
    fn one_node_alone_is_compared_with_us() {
        let found = found(&[5000], 30);
        assert_eq!(found[0].1, "its clock is 5s ahead of ours");
    }

    #[test]
    fn a_rate_is_wrong_only_beyond_what_is_allowed_and_unsure() {
        for (gain, within, wrong) in
            [(0.02, 0.001, true), (-0.02, 0.001, true), (0.011, 0.002, false), (0.009, 0.0, false)]
        {
            assert_eq!(rate_finding(ClockRate { gain, within }, 0.01).is_some(), wrong, "{gain}");
        }
        assert!(
            rate_finding(ClockRate { gain: 0.02, within: 0.001 }, 0.01)
                .unwrap()
                .remedy
                .contains("drift = 0.021")
        );
        assert!(
            rate_finding(ClockRate { gain: 0.5, within: 0.001 }, 0.01)
                .unwrap()
                .remedy
                .contains("take it out")
        );
    }
}
