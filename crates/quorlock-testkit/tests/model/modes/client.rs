//! The client: it hears answers, and the shipped [`Attempt`] decides what they mean.
//!
//! As in `crate::client`, the attempt is made anew from the answers that the client has heard.

use super::plan::Mode;
use super::rules::{Mutation, Rules};
use super::state::{Phase, State, Violation, command};
use crate::client::{Answer, ballot, mark, small};
use crate::rules::NameLoss;
use crate::state::{Reply, Word};
use quorlock_core::{Attempt, Ballot, Fence, Quorum, Step};

impl<const N: usize, const C: usize> Rules<N, C> {
    pub(crate) fn start(&self, state: &mut State<N, C>, client: usize) {
        state.seats[client].phase = Phase::Acquiring;
        state.seats[client].before = state.highest_fence(self.plans[client].names);
    }

    /// A holder begins its downgrade, from when on it counts as a reader.
    pub(crate) fn send_downgrade(&self, state: &mut State<N, C>, client: usize) {
        let seat = &mut state.seats[client];
        seat.has_downgraded = true;
        seat.writes = self.is(Mutation::DowngradeCountedLate);
        state.send(client, command::DOWNGRADE);
    }

    /// A holder begins its upgrade, which is an attempt with its own proposal.
    pub(crate) fn send_upgrade(&self, state: &mut State<N, C>, client: usize) {
        let before = state.highest_fence(self.plans[client].names);
        let seat = &mut state.seats[client];
        (seat.phase, seat.before, seat.has_upgraded) = (Phase::Upgrading, before, true);
        state.send(client, command::UPGRADE);
    }

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
            Answer::Ballot => (&mut cell.ballot, attempt.on_ballot(node, self.ballot(client, word))),
            Answer::Mark => (&mut cell.mark, attempt.on_stamp_reply(mark(word))),
        };
        let counts = !matches!(word, Word::Denied | Word::NotHeld);
        *reply = Reply { word: if counts { word } else { Word::Missing }, heard: true };
        match (step, state.seats[client].phase) {
            (Step::Wait, _) => {}
            (Step::Stamp, _) => self.send_stamps(state, client, attempt),
            (Step::Granted(fence), _) => self.grant(state, client, small(fence)),
            (Step::Refused, Phase::Upgrading) => self.undo_upgrade(state, client),
            (Step::Refused, _) => self.end(state, client),
        }
    }

    /// The attempt of `client` after all that it has heard.
    fn attempt(&self, state: &State<N, C>, client: usize) -> Attempt {
        let seat = state.seats[client];
        let plan = self.plans[client];
        let upgrade = plan.upgrade.filter(|_| seat.phase == Phase::Upgrading);
        let proposal = upgrade.unwrap_or(plan.proposal);
        let mut attempt = Attempt::new(Quorum::of(N).unwrap(), Fence::new(proposal.into()));
        let cells = || state.columns.iter().map(|column| column.cells[client]).enumerate();
        for (node, cell) in cells().filter(|(_, cell)| cell.ballot.heard) {
            attempt.on_ballot(node, self.ballot(client, cell.ballot.word));
        }
        for _ in 0..seat.rounds {
            attempt.stamp(Fence::default()).unwrap();
        }
        assert!(seat.rounds == 0 || attempt.highest().get() == u64::from(seat.target()));
        for (_, cell) in cells().filter(|(_, cell)| cell.mark.heard) {
            attempt.on_stamp_reply(mark(cell.mark.word));
        }
        attempt
    }

    fn ballot(&self, client: usize, word: Word) -> Ballot {
        match word {
            Word::Voted(_) if self.takes_maximum(client) => Ballot::Raised,
            _ => ballot(word),
        }
    }

    fn takes_maximum(&self, client: usize) -> bool {
        self.is(Mutation::ReaderMax) && self.plans[client].mode == Mode::Shared
    }

    fn send_stamps(&self, state: &mut State<N, C>, client: usize, mut attempt: Attempt) {
        let target = attempt.stamp(Fence::default()).unwrap();
        let seat = &mut state.seats[client];
        seat.rounds += 1;
        let (of_attempt, round) = seat.round().unwrap();
        seat.targets[of_attempt][round] = small(target);
        let bit = [command::STAMPS, command::UPGRADE_STAMPS][of_attempt][round];
        for (node, column) in state.columns.iter_mut().enumerate() {
            let cell = &mut column.cells[client];
            (cell.ballot, cell.mark) = (Reply::default(), Reply::default());
            if attempt.voters().contains(node) {
                cell.queued |= bit;
                // So that the attempt made anew asks for the same number in this round.
                cell.ballot = Reply { word: Word::Voted(seat.target() - seat.rounds), heard: true };
            }
        }
        state.forget_targets(client);
    }

    /// `client` returns with `number`. Here the promises about fences and holders are checked.
    fn grant(&self, state: &mut State<N, C>, client: usize, number: u8) {
        let number = self.fence(state, client, number);
        let plan = self.plans[client];
        let seat = state.seats[client];
        let is_upgrade = seat.phase == Phase::Upgrading;
        let writes = is_upgrade || plan.mode == Mode::Exclusive;
        let keeps_fence = is_upgrade && self.is(Mutation::UpgradeKeepsFence);
        if !keeps_fence && plan.names.iter().any(|name| state.fences[name] & 1 << number != 0) {
            state.violate(Violation::DuplicateFence);
        } else if !keeps_fence && seat.before != 0 && number <= seat.before {
            state.violate(Violation::NotAboveEarlier);
        } else if self.loss == NameLoss::Valid {
            self.check_holders(state, client, writes, number);
        }
        for name in plan.names.iter() {
            state.fences[name] |= 1 << number;
            if writes {
                state.writers[name] = state.writers[name].max(number);
            }
        }
        if is_upgrade {
            loosen_uncounted(state, client);
        }
        let seat = &mut state.seats[client];
        (seat.phase, seat.writes) = (Phase::Holding, writes);
        seat.fence = if self.is(Mutation::UpgradeKeepsFence) { number } else { 0 };
        state.forget_answers(client);
        self.end_if_irrelevant(state, client);
    }

    /// The fence of an attempt that was granted `number`.
    fn fence(&self, state: &State<N, C>, client: usize, number: u8) -> u8 {
        let seat = state.seats[client];
        let seen = state.columns.iter().map(|column| match column.cells[client].ballot {
            Reply { word: Word::Voted(counter), heard: true } => counter,
            _ => 0,
        });
        match seat.phase {
            Phase::Upgrading if self.is(Mutation::UpgradeKeepsFence) => seat.fence,
            Phase::Acquiring if self.takes_maximum(client) => seen.max().unwrap(),
            _ => number,
        }
    }

    fn check_holders(&self, state: &mut State<N, C>, client: usize, writes: bool, number: u8) {
        let names = self.plans[client].names;
        let meets = |other: &usize| *other != client && self.plans[*other].names.meets(names);
        let conflicts = |other: usize| state.seats[other].holds() && (writes || state.seats[other].writes);
        let is_in_order = |name: usize| match (writes, self.is(Mutation::UpgradeKeepsFence)) {
            (true, true) => state.fences[name].checked_ilog2().unwrap_or(0) <= u32::from(number),
            (true, false) => state.fences[name] >> number == 0,
            (false, _) => state.writers[name] == 0 || state.writers[name] < number,
        };
        if (0..C).filter(meets).any(conflicts) {
            state.violate(Violation::Conflict);
        } else if !names.iter().all(is_in_order) {
            state.violate(Violation::HoldingOrder);
        }
    }

    /// A failed upgrade: the client goes on as a reader.
    fn undo_upgrade(&self, state: &mut State<N, C>, client: usize) {
        state.send(client, command::UNDO);
        state.seats[client].phase = Phase::Holding;
        state.forget_answers(client);
        self.end_if_irrelevant(state, client);
    }

    /// Where names vanish at any moment nothing is promised of holders: only those matter that go on.
    fn end_if_irrelevant(&self, state: &mut State<N, C>, client: usize) {
        let goes_on = self.plans[client].upgrade.is_some() && !state.seats[client].has_upgraded;
        if self.loss == NameLoss::Any && !goes_on {
            self.end(state, client);
        }
    }

    /// Ends the attempt or the hold of `client`.
    pub(crate) fn end(&self, state: &mut State<N, C>, client: usize) {
        let seat = &mut state.seats[client];
        seat.phase = Phase::Over;
        seat.fence = 0;
        seat.writes &= self.is(Mutation::ReleaseOfOneKind);
        for column in &mut state.columns {
            column.cells[client].is_loose = false;
            if self.loss == NameLoss::Valid && !self.leaves_entries {
                column.cells[client].queued = 0;
                column.places.iter_mut().for_each(|place| place.remove(client));
            }
        }
        state.forget_answers(client);
    }
}

/// The lease of an upgrade counts from its start: entries on nodes that did not vote for it may end
/// before.
fn loosen_uncounted<const N: usize, const C: usize>(state: &mut State<N, C>, client: usize) {
    for column in &mut state.columns {
        let ballot = column.cells[client].ballot;
        let has_voted = ballot.heard && matches!(ballot.word, Word::Confirmed | Word::Voted(_));
        if !has_voted && column.stores(client) {
            column.cells[client].is_loose = true;
        }
    }
}
