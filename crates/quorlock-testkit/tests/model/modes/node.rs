//! What a node does when a command arrives.

use super::plan::{Mode, Names};
use super::rules::{Mutation, Rules};
use super::state::{Column, Phase, Place, State, Violation, command};
use crate::rules::Voting;
use crate::state::{Reply, Word};

impl<const N: usize, const C: usize> Rules<N, C> {
    /// Executes the vote of `client`, or its next name.
    pub(crate) fn vote(&self, state: &mut State<N, C>, client: usize, node: usize) {
        let plan = self.plans[client];
        let progress = state.columns[node].cells[client].vote;
        let left = Names(plan.names.0 & !progress.asked);
        let now = match self.voting {
            Voting::Atomic => left,
            Voting::Native => Names(1 << left.iter().next().unwrap()),
        };
        let admitted = self.admit(state, client, node, now);
        let column = &mut state.columns[node];
        let raises = !(self.is(Mutation::ReaderMax) && plan.mode == Mode::Shared);
        let raised = if raises { raise(column, now, plan.proposal) } else { 0 };
        let progress = &mut column.cells[client].vote;
        progress.asked |= now.0;
        progress.admitted |= admitted;
        progress.raised |= raised;
        if progress.asked == plan.names.0 {
            self.answer_vote(state, client, node);
        }
    }

    /// Stores `client` for those of `names` to which it is admitted, and returns them.
    fn admit(&self, state: &mut State<N, C>, client: usize, node: usize, names: Names) -> u8 {
        let mode = self.plans[client].mode;
        let column = &mut state.columns[node];
        let is_outlived = |place: &Place| place.readers != 0 && place.readers & !place.outlived == 0;
        let refused_by_ended = names.iter().any(|name| is_outlived(&column.places[name]));
        let is_free = |name: &usize| match mode {
            Mode::Shared => column.places[*name].writer.is_none(),
            Mode::Exclusive => column.places[*name].writer.is_none() && column.places[*name].readers == 0,
        };
        let mut admitted = names.iter().filter(is_free).fold(0, |admitted, name| admitted | 1 << name);
        if admitted != names.0 && self.voting == Voting::Atomic && !self.is(Mutation::Partial) {
            admitted = 0;
        }
        if !self.leaves_entries && state.seats[client].phase == Phase::Over {
            admitted = 0;
        }
        for name in Names(admitted).iter() {
            column.places[name].store(client, mode);
        }
        // What is stored after the grant may end before a lease that was extended since.
        column.cells[client].is_loose = self.extends && admitted != 0 && state.seats[client].holds();
        if mode == Mode::Exclusive && refused_by_ended {
            state.violate(Violation::RefusedByEnded);
        }
        admitted
    }

    fn answer_vote(&self, state: &mut State<N, C>, client: usize, node: usize) {
        let plan = self.plans[client];
        let column = &mut state.columns[node];
        let highest = column.highest(plan.names);
        let progress = std::mem::take(&mut column.cells[client].vote);
        let counts = match self.mutation {
            Mutation::Partial => progress.admitted != 0,
            _ => progress.admitted == plan.names.0,
        };
        let is_raised = match self.mutation {
            Mutation::HalfRaise => progress.raised != 0,
            _ => progress.raised == plan.names.0,
        };
        let word = match self.voting {
            _ if !counts => Word::Denied,
            _ if is_raised => Word::Confirmed,
            Voting::Atomic => Word::Voted(highest),
            Voting::Native => Word::Voted(0),
        };
        let cell = &mut column.cells[client];
        cell.vote.is_done = true;
        let seat = state.seats[client];
        if seat.phase == Phase::Acquiring && seat.rounds == 0 && !cell.ballot.heard {
            cell.ballot = Reply { word, heard: false };
        }
    }

    /// Executes one command that was sent after the vote.
    pub(crate) fn execute(&self, state: &mut State<N, C>, client: usize, node: usize, bit: u8) {
        state.columns[node].cells[client].queued &= !bit;
        match bit {
            command::DOWNGRADE => self.downgrade(state, client, node),
            command::ADD_READER => self.add_reader(state, client, node),
            command::UPGRADE => self.upgrade(state, client, node),
            command::UNDO if self.is(Mutation::UndoRemoves) => {
                let writes = |place: &&mut Place| place.is_of(client, Mode::Exclusive);
                state.columns[node].places.iter_mut().filter(writes).for_each(|place| place.remove(client));
            }
            command::UNDO => to_reader(&mut state.columns[node], client),
            _ => self.stamp(state, client, node, bit),
        }
        state.forget_targets(client);
    }

    /// From a reader's entry to a writer's, for all names or none.
    fn upgrade(&self, state: &mut State<N, C>, client: usize, node: usize) {
        let names = self.plans[client].names;
        let proposal = self.plans[client].upgrade.unwrap();
        let in_the_way = self.readers_in_the_way(state, client, node);
        let column = &mut state.columns[node];
        let is_alone = |name: usize| {
            let place = &column.places[name];
            place.is_of(client, Mode::Exclusive)
                || (place.is_of(client, Mode::Shared)
                    && place.writer.is_none()
                    && place.readers & in_the_way == 0)
        };
        let mut word = Word::Denied;
        if names.iter().all(is_alone) {
            for name in names.iter() {
                column.places[name].remove(client);
                column.places[name].store(client, Mode::Exclusive);
            }
            if !self.is(Mutation::UpgradeKeepsEnd) {
                column.cells[client].is_loose = false;
            }
            let keeps = self.is(Mutation::UpgradeKeepsFence);
            let is_raised = keeps || raise(column, names, proposal) == names.0;
            word = if is_raised { Word::Confirmed } else { Word::Voted(column.highest(names)) };
        }
        let seat = state.seats[client];
        let cell = &mut column.cells[client];
        if seat.phase == Phase::Upgrading && seat.rounds == 0 && !cell.ballot.heard {
            cell.ballot = Reply { word, heard: false };
        }
        let is_undone = seat.phase == Phase::Holding && !seat.writes && cell.queued & command::UNDO == 0;
        if is_undone && word != Word::Denied {
            state.violate(Violation::UpgradedAfterUndo);
        }
    }

    /// The readers for which `node` refuses to upgrade `client`.
    fn readers_in_the_way(&self, state: &State<N, C>, client: usize, node: usize) -> u8 {
        let has_asked = |other: &usize| {
            let cell = state.columns[node].cells[*other];
            state.seats[*other].has_upgraded && cell.queued & command::UPGRADE == 0
        };
        let others = (0..C).filter(|other| *other != client);
        let bits =
            |clients: &mut dyn Iterator<Item = usize>| clients.fold(0, |bits, other| bits | 1 << other);
        match self.mutation {
            Mutation::UpgradeWithReaders => 0,
            Mutation::UpgradeOfTwo => bits(&mut others.filter(|other| !has_asked(other))),
            _ => bits(&mut others.into_iter()),
        }
    }

    fn downgrade(&self, state: &mut State<N, C>, client: usize, node: usize) {
        let column = &mut state.columns[node];
        if !self.is(Mutation::DowngradeInTwoSteps) {
            to_reader(column, client);
        } else if column.stores(client) {
            column.places.iter_mut().for_each(|place| place.remove(client));
            column.cells[client].queued |= command::ADD_READER;
        }
        let executed = |column: &&Column<C>| column.cells[client].queued & command::DOWNGRADE == 0;
        let is_counted_now = self.is(Mutation::DowngradeCountedLate);
        if is_counted_now && state.columns.iter().filter(executed).count() > N / 2 {
            state.seats[client].writes = false;
        }
    }

    fn add_reader(&self, state: &mut State<N, C>, client: usize, node: usize) {
        let column = &mut state.columns[node];
        for name in self.plans[client].names.iter() {
            if column.places[name].writer.is_none() {
                column.places[name].store(client, Mode::Shared);
            }
        }
    }

    fn stamp(&self, state: &mut State<N, C>, client: usize, node: usize, bit: u8) {
        let plan = self.plans[client];
        let seat = state.seats[client];
        let is_upgrade = command::UPGRADE_STAMPS.contains(&bit);
        let attempt = usize::from(is_upgrade);
        let bits = [command::STAMPS, command::UPGRADE_STAMPS][attempt];
        let round = usize::from(bit == bits[1]);
        let mode = if is_upgrade { Mode::Exclusive } else { plan.mode };
        let column = &mut state.columns[node];
        let is_held = match self.mutation {
            Mutation::Partial => column.stores(client),
            _ => column.is_of(client, plan.names, mode),
        };
        let word = if is_held {
            let to = seat.targets[attempt][round].max(column.highest(plan.names) + 1);
            plan.names.iter().for_each(|name| column.places[name].counter = to);
            Word::Stamped(to)
        } else {
            Word::NotHeld
        };
        let phase = if is_upgrade { Phase::Upgrading } else { Phase::Acquiring };
        let mark = &mut column.cells[client].mark;
        if seat.phase == phase && usize::from(seat.rounds) == round + 1 && !mark.heard {
            *mark = Reply { word, heard: false };
        }
    }

    /// Removes what is of `client`.
    pub(crate) fn release(&self, state: &mut State<N, C>, client: usize, node: usize) {
        let writes = state.seats[client].writes;
        let column = &mut state.columns[node];
        for place in &mut column.places {
            match self.mutation {
                Mutation::ReleaseRemovesAll if place.is_of(client, Mode::Shared) => {
                    (place.writer, place.readers) = (None, 0);
                }
                Mutation::ReleaseOfOneKind if place.is_of(client, Mode::Exclusive) != writes => {}
                _ => place.remove(client),
            }
        }
        if column.stores(client) {
            state.violate(Violation::LeftBehind);
        }
    }
}

/// Turns every writer's entry of `client` into a reader's: a downgrade, and the undo of an upgrade.
fn to_reader<const C: usize>(column: &mut Column<C>, client: usize) {
    for place in &mut column.places {
        if place.is_of(client, Mode::Exclusive) {
            place.remove(client);
            place.store(client, Mode::Shared);
        }
    }
}

/// Raises the counters of `names` to `proposal`, and returns those that were below it.
fn raise<const C: usize>(column: &mut Column<C>, names: Names, proposal: u8) -> u8 {
    let mut raised = 0;
    for name in names.iter() {
        let counter = &mut column.places[name].counter;
        if *counter < proposal {
            *counter = proposal;
            raised |= 1 << name;
        }
    }
    raised
}
