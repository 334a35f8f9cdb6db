//! All nodes together: how many there are, how many may fail, and the ttl.

use super::finding::Finding;
use super::look::Look;
use crate::duration::show;
use quorlock::advised_ttl;
use serde_json::{Value, json};
use std::time::Duration;

/// Findings about the nodes as a whole.
pub(super) fn findings(look: &Look) -> Vec<Finding> {
    let mut found = Vec::new();
    let (nodes, needed, voters) = (look.quorum.nodes(), look.quorum.needed(), look.voters());
    if voters < needed {
        found.push(
            Finding::error("no-quorum")
                .what(format!("{voters} of {nodes} nodes can vote, {needed} are needed"))
                .why("nobody can take a lock")
                .remedy("mend the nodes named here"),
        );
    } else if voters < nodes && look.may_fail() == 0 {
        found.push(
            Finding::warning("no-spare")
                .what(format!("{voters} of {nodes} nodes can vote, and {needed} are needed"))
                .why("locks can be taken, but no other node may fail")
                .remedy("mend the nodes named here soon"),
        );
    }
    if nodes.is_multiple_of(2) {
        found.push(
            Finding::warning("even-count")
                .what(format!("there are {nodes} nodes, an even number"))
                .why(format!("no more of them may fail than of {}, and votes can be split evenly", nodes - 1))
                .remedy(format!("use {} nodes, or {}", nodes - 1, nodes + 1)),
        );
    }
    if look.store().is_some_and(|store| store.members == Some(1)) {
        found.push(
            Finding::note("single-member")
                .what("the cluster has one member")
                .why("when it is down, nobody can take a lock")
                .remedy("nothing if that is fine; 3 members bear one failure, 5 bear two"),
        );
    }
    if nodes == 1 && look.servers().next().is_some() {
        found.push(
            Finding::note("single-node")
                .what("there is one node")
                .why("when it is down, nobody can take a lock")
                .remedy("nothing if that is fine; 3 nodes bear one failure, 5 bear two"),
        );
    }
    found
}

/// What is said about the ttl.
#[derive(Debug)]
pub(super) struct TtlAdvice {
    ttl: Duration,
    longest: Duration,
    latency: Duration,
    nodes: usize,
    work: Option<Duration>,
}

impl TtlAdvice {
    pub(super) fn new(look: &Look, work: Option<Duration>) -> Self {
        Self {
            ttl: look.settings.ttl.value,
            longest: look.settings.longest_ttl.value,
            latency: look.latency(),
            nodes: look.quorum.nodes(),
            work,
        }
    }

    /// The longest work that the ttl suits, by the same rule backwards.
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
                .why("it should be twice the work, the round trips and a second, so that a lock that is not extended \
                      outlives the work; `quorlock run` extends it, and a short ttl leaves few tries for that")
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
                format!("; work of {work} wants {} or more", show(round_up(advised)))
            }
            None => String::new(),
        };
        format!("ttl: {ttl} suits work of up to {longest}, twice over with round trips and a second{advised}")
    }
}

/// Up to a tenth of a second: as it is shown.
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
    fn a_ttl_that_is_too_short_is_told_with_the_one_to_set() {
        assert!(advice(30, Some(4)).finding().is_none());
        assert!(advice(30, None).finding().is_none());
        let remedy = advice(9, Some(4)).finding().unwrap().remedy;
        assert_eq!(remedy, "set ttl = \"9.1s\"");
        let remedy = advice(30, Some(20)).finding().unwrap().remedy;
        assert!(remedy.contains("longest_ttl = \"41.1s\""), "{remedy}");
    }
}
