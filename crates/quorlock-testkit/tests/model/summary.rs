//! What a state keeps of an attempt is enough: one made anew from it goes on like one that heard
//! everything.

use crate::client::{Answer, ballot, mark};
use crate::rules::{NameLoss, Rules, Voting};
use crate::state::{Phase, State, Word};
use quorlock_core::{Attempt, Fence, Quorum, Step};

const PROPOSAL: u8 = 2;
const NODES: usize = 3;

/// An attempt that got all replies, next to the state that represents it.
#[derive(Clone)]
struct Pair {
    rules: Rules<NODES, 1>,
    state: State<NODES, 1>,
    attempt: Attempt,
}

impl Pair {
    fn new() -> Self {
        let mut state = State::initial();
        state.seats[0].phase = Phase::Running;
        let quorum = Quorum::of(NODES).unwrap();
        Self {
            rules: Rules::shipped([PROPOSAL], Voting::Atomic, NameLoss::Any),
            state,
            attempt: Attempt::new(quorum, Fence::new(PROPOSAL.into())),
        }
    }

    /// Both hear the same and must do the same; `true` if they go on.
    fn hear(&mut self, node: usize, answer: Answer, word: Word) -> bool {
        let rounds = self.state.seats[0].rounds;
        self.rules.hear(&mut self.state, 0, node, answer, word);
        let step = match answer {
            Answer::Ballot => self.attempt.on_ballot(node, ballot(word)),
            Answer::Mark => self.attempt.on_stamp_reply(mark(word)),
        };
        let seat = self.state.seats[0];
        match step {
            Step::Wait => assert_eq!((seat.phase, seat.rounds), (Phase::Running, rounds)),
            Step::Refused => assert_eq!((seat.phase, self.state.fences), (Phase::Over, 0)),
            Step::Granted(fence) => assert_eq!(self.state.fences, 1 << fence.get()),
            Step::Stamp => {
                let target = self.attempt.stamp(Fence::default()).unwrap();
                assert_eq!((seat.phase, seat.rounds), (Phase::Running, rounds + 1));
                assert_eq!(u64::from(seat.target()), target.get());
            }
        }
        seat.phase == Phase::Running
    }

    /// Tries all answers of the nodes in `order` from `at` on, and then all rounds that follow.
    fn try_all(&self, order: &[usize], at: usize) -> usize {
        let seat = self.state.seats[0];
        let (answer, words) = match seat.rounds {
            0 => {
                let voted = [Word::Voted(0), Word::Voted(PROPOSAL), Word::Voted(5)];
                (Answer::Ballot, [&voted[..], &[Word::Confirmed, Word::Denied, Word::Missing]].concat())
            }
            _ => {
                let stamped = [Word::Stamped(seat.target()), Word::Stamped(seat.target() + 1)];
                (Answer::Mark, [&stamped[..], &[Word::NotHeld, Word::Missing]].concat())
            }
        };
        let mut tried = 0;
        for word in words {
            let mut pair = self.clone();
            tried += 1;
            if pair.hear(order[at], answer, word) {
                let next_round = pair.state.seats[0].rounds > seat.rounds;
                let voters: Vec<usize> = pair.attempt.voters().iter().collect();
                tried += if next_round { pair.try_all(&voters, 0) } else { pair.try_all(order, at + 1) };
            }
        }
        tried
    }
}

#[test]
fn an_attempt_made_anew_from_a_state_goes_on_like_the_one_it_stands_for() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        println!("answers of nodes {order:?}: {} tried", Pair::new().try_all(&order, 0));
    }
}
