//! Counting votes: a majority of the configured nodes decides, never of those that answered.

use std::fmt;

/// How many of the configured nodes must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorum {
    nodes: u8,
}

impl Quorum {
    /// The most nodes that one locker may have.
    pub const MAX_NODES: usize = 31;

    /// The majority of `nodes` configured nodes.
    ///
    /// # Errors
    /// [`QuorumError`] if there are none or more than [`Quorum::MAX_NODES`].
    pub fn of(nodes: usize) -> Result<Self, QuorumError> {
        match u8::try_from(nodes) {
            Ok(count) if count > 0 && nodes <= Self::MAX_NODES => Ok(Self { nodes: count }),
            _ => Err(QuorumError { nodes }),
        }
    }

    /// How many nodes are configured.
    pub fn nodes(self) -> usize {
        self.nodes.into()
    }

    /// How many of them must agree: more than half.
    pub fn needed(self) -> usize {
        usize::from(self.nodes) / 2 + 1
    }

    /// What `yes` votes decide while `outstanding` nodes have not answered.
    pub fn verdict(self, yes: usize, outstanding: usize) -> Verdict {
        if yes >= self.needed() {
            Verdict::Granted
        } else if yes + outstanding >= self.needed() {
            Verdict::Pending
        } else {
            Verdict::Refused
        }
    }

    /// How many nodes may fail while the rest still decides.
    pub fn spare(self) -> usize {
        self.nodes() - self.needed()
    }
}

impl fmt::Display for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.needed(), self.nodes)
    }
}

/// The number of nodes is not one that can vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{nodes} nodes cannot vote; give 1 to 31, best 1, 3 or 5")]
pub struct QuorumError {
    /// How many nodes were given.
    pub nodes: usize,
}

/// What one node answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// The node did what was asked.
    For,
    /// The node answered that it cannot: another client's lock, or none, is there.
    Against,
    /// The node did not answer properly. It is no vote, and what it did is unknown.
    Missing,
}

/// What the votes so far decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A majority agreed.
    Granted,
    /// The nodes that have not answered can still decide it either way.
    Pending,
    /// A majority can no longer agree.
    Refused,
}

/// The votes of one round.
#[derive(Clone, Debug)]
pub struct Tally {
    quorum: Quorum,
    yes: u8,
    no: u8,
    missing: u8,
}

impl Tally {
    /// An empty count.
    pub fn new(quorum: Quorum) -> Self {
        Self { quorum, yes: 0, no: 0, missing: 0 }
    }

    /// Counts one node's vote. The caller makes sure that each node is counted once.
    pub fn count(&mut self, vote: Vote) -> Verdict {
        match vote {
            Vote::For => self.yes += 1,
            Vote::Against => self.no += 1,
            Vote::Missing => self.missing += 1,
        }
        self.verdict()
    }

    /// What the votes so far decide.
    pub fn verdict(&self) -> Verdict {
        self.quorum.verdict(self.yes(), self.outstanding())
    }

    /// Nodes that agreed.
    pub fn yes(&self) -> usize {
        self.yes.into()
    }

    /// Nodes that answered no.
    pub fn no(&self) -> usize {
        self.no.into()
    }

    /// Nodes that failed to answer.
    pub fn missing(&self) -> usize {
        self.missing.into()
    }

    /// Nodes that have not been counted yet.
    pub fn outstanding(&self) -> usize {
        self.quorum.nodes().saturating_sub(self.yes() + self.no() + self.missing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tally(nodes: usize, votes: &str) -> Tally {
        let mut tally = Tally::new(Quorum::of(nodes).unwrap());
        for vote in votes.chars() {
            tally.count(match vote {
                'y' => Vote::For,
                'n' => Vote::Against,
                _ => Vote::Missing,
            });
        }
        tally
    }

    #[test]
    fn a_quorum_is_shown_as_how_many_of_how_many() {
        assert_eq!(Quorum::of(5).unwrap().to_string(), "3 of 5");
    }

    #[test]
    fn a_majority_of_the_configured_nodes_decides() {
        // y = yes, n = no, - = did not answer; what has not come yet is left out
        let table = "
            nodes  votes   verdict
            1      y       Granted
            1      n       Refused
            1      -       Refused
            3      y       Pending
            3      yy      Granted
            3      yn      Pending
            3      y--     Refused
            3      nn      Refused
            5      yyy     Granted
            5      yyy--   Granted
            5      yy--    Pending
            5      yy---   Refused
            5      yynnn   Refused
            5      nn      Pending";
        for row in table.lines().skip(2) {
            let cells: Vec<&str> = row.split_whitespace().collect();
            let verdict = tally(cells[0].parse().unwrap(), cells[1]).verdict();
            assert_eq!(format!("{verdict:?}"), cells[2], "{row}");
        }
    }

    #[test]
    fn an_even_split_is_refused_not_pending() {
        assert_eq!(tally(2, "yn").verdict(), Verdict::Refused);
        assert_eq!(tally(4, "yynn").verdict(), Verdict::Refused);
        assert_eq!(tally(4, "yy--").verdict(), Verdict::Refused);
    }

    #[test]
    fn no_nodes_and_too_many_nodes_are_refused() {
        assert_eq!(Quorum::of(0), Err(QuorumError { nodes: 0 }));
        assert_eq!(Quorum::of(32), Err(QuorumError { nodes: 32 }));
        assert_eq!(Quorum::of(usize::MAX), Err(QuorumError { nodes: usize::MAX }));
    }

    proptest! {
        #[test]
        fn two_majorities_always_share_a_node(nodes in 1usize..=31) {
            let quorum = Quorum::of(nodes).unwrap();
            prop_assert!(2 * quorum.needed() > nodes);
            prop_assert_eq!(quorum.needed() + quorum.spare(), nodes);
        }

        #[test]
        fn a_decided_verdict_never_changes(nodes in 1usize..=31, votes in "[yn-]{0,31}") {
            let votes = &votes[..votes.len().min(nodes)];
            let mut decided = None;
            for end in 0..=votes.len() {
                let verdict = tally(nodes, &votes[..end]).verdict();
                if let Some(earlier) = decided {
                    prop_assert_eq!(verdict, earlier);
                } else if verdict != Verdict::Pending {
                    decided = Some(verdict);
                }
            }
            prop_assert!(votes.len() < nodes || decided.is_some());
        }
    }
}
