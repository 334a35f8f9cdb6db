//! The client: it hears answers, and the shipped [`Attempt`] decides what they mean.
//!
//! The attempt is not part of the state: it is made anew from the answers that the client has
//! heard, so that states stay small and equal ones are recognised whatever the order in which the
//! answers came. For the same reason the answers are forgotten where only their sum matters: a
//! refusal counts as much as silence, and in a stamp round all that is left of the rounds before is
//! who voted and the number asked for.

use crate::rules::{Decision, NameLoss, Rules};
use crate::state::{Phase, Reply, State, Violation, Word};
use quorlock_core::attempt::StampReply;
use quorlock_core::{Attempt, Ballot, Fence, Quorum, Step};

/// Which answer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Ballot,
    Mark,
}

impl<const N: usize, const C: usize> Rules<N, C> {
    /// `client` hears `word` from `node` and goes on as the shipped attempt says.
    pub(crate) fn hear(
        &self,
        state: &mut State<N, C>,
        client: usize,
        node: usize,
        answer: Answer,
        word: Word,
    ) {
        let mut attempt = self.attempt(state, client);
        let cell = &mut state.columns[node].cells[client];
        let (reply, step) = match answer {
            Answer::Ballot => (&mut cell.ballot, attempt.on_ballot(node, ballot(word))),
            Answer::Mark => (&mut cell.mark, attempt.on_stamp_reply(mark(word))),
        };
        let counts = !matches!(word, Word::Denied | Word::NotHeld);
        *reply = Reply { word: if counts { word } else { Word::Missing }, heard: true };
        match (step, self.decision) {
            (Step::Wait, _) => {}
            (Step::Refused, _) => state.end(client, Phase::Over),
            (Step::Granted(fence), _) => self.grant(state, client, fence),
            (Step::Stamp, Decision::Shipped) => self.stamp(state, client, attempt),
            (Step::Stamp, Decision::TakeProposal) => {
                self.grant(state, client, Fence::new(self.proposals[client].into()));
            }
            (Step::Stamp, Decision::TakeMaximum) => {
                let above = attempt.highest().next().unwrap();
                self.grant(state, client, above);
            }
        }
    }

    /// The attempt of `client` after all that it has heard.
    fn attempt(&self, state: &State<N, C>, client: usize) -> Attempt {
        let proposal = Fence::new(self.proposals[client].into());
        let mut attempt = Attempt::new(Quorum::of(N).unwrap(), proposal);
        let cells = || state.columns.iter().map(|column| column.cells[client]).enumerate();
        for (node, cell) in cells().filter(|(_, cell)| cell.ballot.heard) {
            attempt.on_ballot(node, ballot(cell.ballot.word));
        }
        let seat = state.seats[client];
        for _ in 0..seat.rounds {
            attempt.stamp(Fence::default()).unwrap();
        }
        assert!(seat.rounds == 0 || attempt.highest().get() == u64::from(seat.target()));
        for (_, cell) in cells().filter(|(_, cell)| cell.mark.heard) {
            attempt.on_stamp_reply(mark(cell.mark.word));
        }
        attempt
    }

    fn stamp(&self, state: &mut State<N, C>, client: usize, mut attempt: Attempt) {
        let target = attempt.stamp(Fence::default()).unwrap();
        let seat = &mut state.seats[client];
        let round = usize::from(seat.rounds);
        seat.targets[round] = small(target);
        seat.rounds += 1;
        for (node, column) in state.columns.iter_mut().enumerate() {
            let cell = &mut column.cells[client];
            (cell.ballot, cell.mark) = (Reply::default(), Reply::default());
            if attempt.voters().contains(node) {
                cell.queued |= 1 << round;
                // So that the attempt made anew asks for the same number in this round.
                cell.ballot = Reply { word: Word::Voted(seat.target() - seat.rounds), heard: true };
            }
        }
        if state.columns.iter().all(|column| column.cells[client].queued & 1 == 0) {
            state.seats[client].targets[0] = 0;
        }
    }

    /// `client` returns with `fence`. Here all promises are checked.
    fn grant(&self, state: &mut State<N, C>, client: usize, fence: Fence) {
        let number = small(fence);
        let seat = state.seats[client];
        let holders = state.seats.iter().filter(|seat| seat.phase == Phase::Holding).count();
        let valid = self.loss == NameLoss::Valid;
        let violation = if state.fences & 1 << number != 0 {
            Some(Violation::DuplicateFence)
        } else if number <= seat.before {
            Some(Violation::NotAboveEarlier)
        } else if valid && holders > 0 {
            Some(Violation::TwoHolders)
        } else if valid && number < state.highest_fence() {
            Some(Violation::HoldingOrder)
        } else if self.decision == Decision::Shipped && self.raised_to(state, client, number) < N / 2 + 1 {
            Some(Violation::WithoutTheName)
        } else {
            None
        };
        state.broken = violation;
        state.fences |= 1 << number;
        state.end(client, if valid { Phase::Holding } else { Phase::Over });
    }

    /// How many nodes `client` raised to `number` while the name was its own there.
    fn raised_to(&self, state: &State<N, C>, client: usize, number: u8) -> usize {
        let raised = |node: &usize| {
            let cell = state.columns[*node].cells[client];
            match state.seats[client].rounds {
                0 => cell.ballot.heard && cell.ballot.word == Word::Confirmed,
                _ => cell.mark.heard && cell.mark.word == Word::Stamped(number),
            }
        };
        (0..N).filter(raised).count()
    }
}

pub(crate) fn small(fence: Fence) -> u8 {
    let number = u8::try_from(fence.get()).unwrap();
    assert!(number < 32, "a case with numbers that do not fit its states");
    number
}

pub(crate) fn ballot(word: Word) -> Ballot {
    match word {
        Word::Confirmed => Ballot::Raised,
        Word::Voted(0) => Ballot::Unraised { counter: None },
        Word::Voted(counter) => Ballot::Unraised { counter: Some(Fence::new(counter.into())) },
        Word::Denied => Ballot::Denied,
        _ => Ballot::Missing,
    }
}

pub(crate) fn mark(word: Word) -> StampReply {
    match word {
        Word::Stamped(to) | Word::Hollow(to) => StampReply::Stamped { to: Fence::new(to.into()) },
        Word::NotHeld => StampReply::NotHeld,
        _ => StampReply::Missing,
    }
}
