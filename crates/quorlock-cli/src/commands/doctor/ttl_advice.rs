//! Whether the ttl suits the work.

use super::finding::Finding;
use super::snapshot::Snapshot;
use crate::output::duration::show;
use quorlock::advised_ttl;
use serde_json::{Value, json};
use std::time::Duration;

/// Advice on the ttl.
#[derive(Debug)]
pub(super) struct TtlAdvice {
    ttl: Duration,
    longest: Duration,
    latency: Duration,
    nodes: usize,
    work: Option<Duration>,
}

impl TtlAdvice {
    pub(super) fn new(snapshot: &Snapshot, work: Option<Duration>) -> Self {
        Self {
            ttl: snapshot.settings.ttl.value,
            longest: snapshot.settings.longest_ttl.value,
            latency: snapshot.latency(),
            nodes: snapshot.quorum.nodes(),
            work,
        }
    }

    /// The longest work that the ttl suits: the inverse of [`advised_ttl`].
    fn longest_work(&self) -> Duration {
        self.ttl.saturating_sub(advised_ttl(Duration::ZERO, self.latency, self.nodes)) / 2
    }

    fn advised(&self) -> Option<Duration> {
        self.work.map(|work| advised_ttl(work, self.latency, self.nodes))
    }

    pub(super) fn finding(&self) -> Option<Finding> {
        let advised = self.advised().filter(|advised| *advised > self.ttl)?;
        let longest = if advised > self.longest {
            format!(", and longest_ttl = \"{}\" for all clients", show(round_up(advised)))
        } else {
            String::new()
        };
        Some(
            Finding::warning("short-ttl")
                .what(format!(
                    "a ttl of {} is short for work of {}",
                    show(self.ttl),
                    show(self.work.unwrap_or_default())
                ))
                .why("it should be twice the work plus the round trips plus a second, so that a lock that is not extended \
                      outlives the work; `quorlock run` extends the lock, and a short ttl leaves few attempts for that")
                .remedy(format!("set ttl = \"{}\"{longest}", show(round_up(advised)))),
        )
    }

    pub(super) fn to_json(&self) -> Value {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        json!({
            "ttl_ms": millis(self.ttl),
            "latency_us": u64::try_from(self.latency.as_micros()).unwrap_or(u64::MAX),
            "work_ms": self.work.map(millis),
            "advised_ms": self.advised().map(millis),
            "longest_work_ms": millis(self.longest_work()),
        })
    }

    pub(super) fn to_text(&self) -> String {
        let (ttl, longest) = (show(self.ttl), show(self.longest_work()));
        let advised = match self.advised() {
            Some(advised) => {
                let work = show(self.work.unwrap_or_default());
                format!("; work of {work} needs {} or more", show(round_up(advised)))
            }
            None => String::new(),
        };
        format!(
            "ttl: {ttl} suits work of up to {longest} (twice the work, the round trips and a second){advised}"
        )
    }
}

/// Rounded up to a tenth of a second, the precision that is shown.
fn round_up(span: Duration) -> Duration {
    let tenths = span.as_millis().div_ceil(100);
    Duration::from_millis(u64::try_from(tenths.saturating_mul(100)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(ttl: u64, work: Option<u64>) -> TtlAdvice {
        let secs = Duration::from_secs;
        let (latency, work) = (Duration::from_millis(10), work.map(secs));
        TtlAdvice { ttl: secs(ttl), longest: secs(30), latency, nodes: 5, work }
    }

    #[test]
    fn the_ttl_is_twice_the_work_the_round_trips_and_a_second() {
        assert_eq!(advice(30, Some(4)).advised(), Some(Duration::from_millis(9050)));
        assert_eq!(advice(30, None).longest_work(), Duration::from_millis(14_475));
        assert_eq!(advice(1, None).longest_work(), Duration::ZERO);
    }

    #[test]
    fn a_ttl_that_is_too_short_is_reported_with_the_one_to_set() {
        assert!(advice(30, Some(4)).finding().is_none());
        assert!(advice(30, None).finding().is_none());
        let remedy = advice(9, Some(4)).finding().unwrap().remedy;
        assert_eq!(remedy, "set ttl = \"9.1s\"");
        let remedy = advice(30, Some(20)).finding().unwrap().remedy;
        assert!(remedy.contains("longest_ttl = \"41.1s\""), "{remedy}");
    }
}
