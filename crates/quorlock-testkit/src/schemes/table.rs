//! The results as text.

use crate::schemes::{Finding, Promotion, Scheme, TTL, Tally};

/// One line per scheme: what it breaks, per 10 000 acquisitions.
pub fn result_table(findings: &[Finding]) -> Vec<String> {
    let head = format!(
        "{:<17} {:>12} {:>9} {:>12} {:>13} {:>8}  {}",
        "scheme", "double holds", "deadlocks", "lost updates", "after fencing", "gave up", "what it does"
    );
    let row = |finding: &Finding| {
        let (scheme, tally) = (finding.scheme, &finding.tally);
        let rate = |count| per_10_000(count, tally);
        let holds = if scheme == Scheme::Optimistic { "-".to_owned() } else { rate(tally.double_holds) };
        let deadlocks = if scheme == Scheme::Optimistic { "-".to_owned() } else { rate(tally.deadlocks) };
        let is_fenced = scheme == Scheme::Quorlock;
        let fenced = if is_fenced { rate(tally.lost_when_fenced) } else { "-".to_owned() };
        let (lost, gave_up) = (rate(tally.lost_updates), rate(tally.gave_up));
        format!(
            "{scheme:<17} {holds:>12} {deadlocks:>9} {lost:>12} {fenced:>13} {gave_up:>8}  {}",
            scheme.about()
        )
    };
    std::iter::once(head).chain(findings.iter().map(row)).collect()
}

/// One line per delay of promotion: what it prevents and what it costs.
pub fn promotion_table(promotions: &[Promotion]) -> Vec<String> {
    let head =
        format!("{:<16} {:>12} {:>12} {:>8}", "promoted after", "double holds", "unavailable", "gave up");
    let row = |promotion: &Promotion| {
        let tally = &promotion.tally;
        let delay = format!("{:.2} ttl", promotion.delay.as_secs_f64() / TTL.as_secs_f64());
        let unavailable = format!("{:.1} %", 100.0 * share_unavailable(tally));
        let (holds, gave_up) = (per_10_000(tally.double_holds, tally), per_10_000(tally.gave_up, tally));
        format!("{delay:<16} {holds:>12} {unavailable:>12} {gave_up:>8}")
    };
    std::iter::once(head).chain(promotions.iter().map(row)).collect()
}

fn share_unavailable(tally: &Tally) -> f64 {
    tally.unavailable.as_secs_f64() / tally.lasted.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// Rounded up, so that what happened never reads as zero.
fn per_10_000(count: u64, tally: &Tally) -> String {
    (count * 10_000).div_ceil(tally.acquisitions.max(1)).to_string()
}
