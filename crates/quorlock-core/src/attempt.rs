//! One attempt to acquire a lock: ballots and stamp replies go in, the next step comes out.
//!
//! A fence is granted when, on a majority of nodes, this attempt holds the name and has itself raised the
//! counter to the same number. The vote proposes a number: if a majority grants the name and was raised to
//! it, one round trip is enough. If a majority grants the name but fewer were raised, a *stamp* round asks
//! each voter to raise its counter to at least one number and to return the result. The fence is the
//! number that a majority returns. See DESIGN.md, section 2.

use crate::fence::Fence;
use crate::node_set::NodeSet;
use crate::tally::{Quorum, Tally, Verdict, Vote};

/// How often an attempt may stamp before it gives up.
const MAX_STAMPS: u8 = 2;

/// What one node answered to the vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ballot {
    /// The name is ours here, and we raised the counter to the proposal, or none was proposed.
    Raised,
    /// The name is ours here, but the counter was at the proposal or above already.
    Unraised {
        /// The counter, if the node returned it.
        counter: Option<Fence>,
    },
    /// Another client has the name here.
    Denied,
    /// No proper answer, or a node that may not vote now.
    Missing,
}

/// What one voter answered to the stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampReply {
    /// The name is still ours here, and we strictly raised the counter.
    Stamped {
        /// To this number.
        to: Fence,
    },
    /// The names of a set are still ours here, and we strictly raised their counters, but to different
    /// numbers.
    Uneven {
        /// The highest of them.
        highest: Fence,
    },
    /// The name is no longer ours here.
    NotHeld,
    /// No proper answer.
    Missing,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait for more answers.
    Wait,
    /// A majority is ours and was raised to this number. The lock is held if the deadline has not passed.
    Granted(Fence),
    /// Call [`Attempt::stamp`] and ask the voters to raise to at least the number that it returns.
    Stamp,
    /// This attempt cannot get it. Undo everywhere.
    Refused,
}

/// The state of one attempt. It does no IO and waits for nothing: the caller does.
#[derive(Clone, Debug)]
pub struct Attempt {
    quorum: Quorum,
    target: Fence,
    highest: Fence,
    votes: Tally,
    raised: Tally,
    voters: NodeSet,
    stamps: u8,
    /// What each voter was raised to in this stamp round.
    stamped: Vec<Fence>,
}

impl Attempt {
    /// An attempt that proposes `proposal` to the nodes of `quorum`.
    pub fn new(quorum: Quorum, proposal: Fence) -> Self {
        Self {
            quorum,
            target: proposal,
            highest: proposal,
            votes: Tally::new(quorum),
            raised: Tally::new(quorum),
            voters: NodeSet::default(),
            stamps: 0,
            stamped: Vec::new(),
        }
    }

    /// Counts the answer of `node` to the vote. The caller passes each node at most once, and none after the
    /// first stamp.
    pub fn on_ballot(&mut self, node: usize, ballot: Ballot) -> Step {
        let (vote, raised) = match ballot {
            Ballot::Raised => (Vote::For, Vote::For),
            Ballot::Unraised { .. } => (Vote::For, Vote::Against),
            Ballot::Denied => (Vote::Against, Vote::Against),
            Ballot::Missing => (Vote::Missing, Vote::Missing),
        };
        if let Ballot::Unraised { counter: Some(counter) } = ballot {
            self.highest = self.highest.max(counter);
        }
        if vote == Vote::For {
            self.voters.insert(node);
        }
        match (self.votes.count(vote), self.raised.count(raised)) {
            (_, Verdict::Granted) => Step::Granted(self.target),
            (Verdict::Refused, _) => Step::Refused,
            (Verdict::Granted, Verdict::Refused) => Step::Stamp,
            (Verdict::Pending | Verdict::Granted, _) => Step::Wait,
        }
    }

    /// Starts a stamp round: the least number to raise to, above everything seen and not below `floor`.
    ///
    /// `None` if the numbers are used up. Ask exactly the [voters](Attempt::voters).
    pub fn stamp(&mut self, floor: Fence) -> Option<Fence> {
        self.stamps += 1;
        self.target = self.highest.next()?.max(floor);
        self.highest = self.target;
        self.raised = Tally::new(self.quorum);
        self.stamped.clear();
        for _ in self.voters.len()..self.quorum.nodes() {
            self.raised.count(Vote::Missing);
        }
        Some(self.target)
    }

    /// Counts the answer of a voter to the stamp. The caller passes each voter at most once per stamp round.
    pub fn on_stamp_reply(&mut self, reply: StampReply) -> Step {
        let vote = match reply {
            StampReply::Stamped { to } => {
                self.highest = self.highest.max(to);
                self.stamped.push(to);
                if self.alike(to) >= self.quorum.needed() {
                    return Step::Granted(to);
                }
                Vote::For
            }
            StampReply::Uneven { highest } => {
                self.highest = self.highest.max(highest);
                Vote::For
            }
            StampReply::NotHeld => Vote::Against,
            StampReply::Missing => Vote::Missing,
        };
        self.raised.count(vote);
        // All voters must answer before another round, which must go above whatever each was raised to.
        match self.raised.outstanding() {
            1.. => Step::Wait,
            0 if self.stamps < MAX_STAMPS => Step::Stamp,
            0 => Step::Refused,
        }
    }

    /// How many voters were raised to exactly `to`.
    fn alike(&self, to: Fence) -> usize {
        self.stamped.iter().filter(|stamped| **stamped == to).count()
    }

    /// The nodes where the name is ours.
    pub fn voters(&self) -> NodeSet {
        self.voters
    }

    /// The highest counter seen or asked for.
    pub fn highest(&self) -> Fence {
        self.highest
    }

    /// The votes for the name.
    pub fn votes(&self) -> &Tally {
        &self.votes
    }

    /// Whether too few nodes answered for any client to be granted the name, as opposed to another client
    /// holding it.
    pub fn lacks_quorum(&self) -> bool {
        self.votes.missing() > self.quorum.spare()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attempt(nodes: usize, proposal: u64) -> Attempt {
        Attempt::new(Quorum::of(nodes).unwrap(), Fence::new(proposal))
    }

    fn vote_one(attempt: &mut Attempt, node: usize, ballot: char) -> Step {
        attempt.on_ballot(
            node,
            match ballot {
                'r' => Ballot::Raised,
                'u' => Ballot::Unraised { counter: None },
                'd' => Ballot::Denied,
                _ => Ballot::Missing,
            },
        )
    }

    /// r = raised, u = unraised, d = denied, - = missing
    fn vote(attempt: &mut Attempt, ballots: &str) -> Step {
        let mut step = Step::Wait;
        for (node, ballot) in ballots.char_indices() {
            step = vote_one(attempt, node, ballot);
        }
        step
    }

    #[test]
    fn the_highest_counter_that_was_seen_is_known() {
        let mut attempt = attempt(3, 9);
        assert_eq!(attempt.highest(), Fence::new(9));
        attempt.on_ballot(0, Ballot::Unraised { counter: Some(Fence::new(20)) });
        attempt.on_ballot(1, Ballot::Unraised { counter: Some(Fence::new(15)) });
        assert_eq!(attempt.highest(), Fence::new(20));
    }

    #[test]
    fn the_vote_is_granted_only_where_a_majority_was_also_raised() {
        let table = "
            nodes  ballots  step
            1      r        Granted(Fence(9))
            1      u        Stamp
            1      d        Refused
            1      -        Refused
            3      rr       Granted(Fence(9))
            3      ru       Wait
            3      rur      Granted(Fence(9))
            3      rud      Stamp
            3      ru-      Stamp
            3      uu       Stamp
            3      rdd      Refused
            3      r--      Refused
            5      rrrdd    Granted(Fence(9))
            5      rruu     Wait
            5      rruuu    Stamp
            5      rrdd     Wait
            5      rrddd    Refused";
        for row in table.lines().skip(2) {
            let cells: Vec<&str> = row.split_whitespace().collect();
            let mut attempt = attempt(cells[0].parse().unwrap(), 9);
            assert_eq!(format!("{:?}", vote(&mut attempt, cells[1])), cells[2], "{row}");
        }
    }

    #[test]
    fn an_even_split_of_votes_is_refused() {
        assert_eq!(vote(&mut attempt(2, 1), "rd"), Step::Refused);
        assert_eq!(vote(&mut attempt(4, 1), "rrdd"), Step::Refused);
    }

    fn stamped(to: u64) -> StampReply {
        StampReply::Stamped { to: Fence::new(to) }
    }

    #[test]
    fn a_stamp_goes_above_everything_seen_and_counts_voters_only() {
        let mut attempt = attempt(3, 5);
        attempt.on_ballot(0, Ballot::Unraised { counter: Some(Fence::new(8)) });
        attempt.on_ballot(1, Ballot::Missing);
        assert_eq!(attempt.on_ballot(2, Ballot::Raised), Step::Stamp);
        assert_eq!(attempt.stamp(Fence::new(3)), Some(Fence::new(9)));
        assert_eq!(attempt.voters(), NodeSet::from_iter([0, 2]));
        assert_eq!(attempt.on_stamp_reply(stamped(9)), Step::Wait);
        assert_eq!(attempt.on_stamp_reply(stamped(9)), Step::Granted(Fence::new(9)));
    }

    #[test]
    fn voters_that_were_all_raised_to_the_same_number_need_one_stamp_whatever_was_asked() {
        // The holder before us had a faster clock: all counters are at 40, which we could not know.
        let mut attempt = attempt(5, 5);
        assert_eq!(vote(&mut attempt, "uuu"), Step::Stamp);
        assert_eq!(attempt.stamp(Fence::default()), Some(Fence::new(6)));
        assert_eq!(attempt.on_stamp_reply(stamped(41)), Step::Wait);
        assert_eq!(attempt.on_stamp_reply(stamped(41)), Step::Wait);
        assert_eq!(attempt.on_stamp_reply(stamped(41)), Step::Granted(Fence::new(41)));
    }

    #[test]
    fn voters_that_were_raised_to_different_numbers_are_stamped_once_more_above_all() {
        let mut attempt = attempt(3, 5);
        vote(&mut attempt, "uu-");
        attempt.stamp(Fence::default());
        assert_eq!(attempt.on_stamp_reply(stamped(41)), Step::Wait);
        assert_eq!(attempt.on_stamp_reply(stamped(6)), Step::Stamp);
        assert_eq!(attempt.stamp(Fence::default()), Some(Fence::new(42)));
        assert_eq!(attempt.on_stamp_reply(stamped(42)), Step::Wait);
        assert_eq!(attempt.on_stamp_reply(stamped(50)), Step::Refused);
    }

    #[test]
    fn names_of_a_set_that_were_raised_to_different_numbers_are_stamped_once_more_above_all() {
        let mut attempt = attempt(3, 5);
        vote(&mut attempt, "uu-");
        attempt.stamp(Fence::default());
        assert_eq!(attempt.on_stamp_reply(StampReply::Uneven { highest: Fence::new(41) }), Step::Wait);
        assert_eq!(attempt.on_stamp_reply(StampReply::Uneven { highest: Fence::new(41) }), Step::Stamp);
        assert_eq!(attempt.stamp(Fence::default()), Some(Fence::new(42)));
        assert_eq!(attempt.on_stamp_reply(stamped(42)), Step::Wait);
        assert_eq!(attempt.on_stamp_reply(stamped(42)), Step::Granted(Fence::new(42)));
    }

    #[test]
    fn a_name_lost_before_the_stamp_is_not_granted() {
        let mut attempt = attempt(3, 5);
        vote(&mut attempt, "uu");
        attempt.stamp(Fence::default());
        assert_eq!(attempt.on_stamp_reply(StampReply::NotHeld), Step::Wait);
        assert_eq!(attempt.on_stamp_reply(stamped(6)), Step::Stamp);
        attempt.stamp(Fence::default());
        attempt.on_stamp_reply(StampReply::NotHeld);
        assert_eq!(attempt.on_stamp_reply(stamped(7)), Step::Refused);
    }

    #[test]
    fn held_and_unreachable_are_different_errors() {
        for (ballots, lacks) in [("rddd-", false), ("dd---", true), ("r----", true), ("rr--d", false)] {
            let mut attempt = attempt(5, 1);
            assert_eq!(vote(&mut attempt, ballots), Step::Refused);
            assert_eq!(attempt.lacks_quorum(), lacks, "{ballots}");
        }
    }

    proptest! {
        /// Goal: whatever the order of answers, a grant means that a majority was raised.
        #[test]
        fn a_grant_always_has_a_raised_majority(nodes in 1usize..=9, ballots in "[rud-]{9}") {
            let ballots = &ballots[..nodes];
            let mut attempt = attempt(nodes, 7);
            for (node, ballot) in ballots.char_indices() {
                let step = vote_one(&mut attempt, node, ballot);
                let seen = &ballots[..=node];
                let raised = seen.matches('r').count();
                let voted = raised + seen.matches('u').count();
                let needed = nodes / 2 + 1;
                prop_assert_eq!(matches!(step, Step::Granted(_)), raised >= needed);
                if step == Step::Stamp { prop_assert!(voted >= needed); }
                if step != Step::Wait { break; }
                prop_assert!(node + 1 < nodes, "the last ballot decides");
            }
        }
    }
}
