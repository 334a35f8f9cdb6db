//! All that can happen next in a state.

use super::plan::Mode;
use super::rules::{Mutation, Rules};
use super::state::{Phase, State, Violation, command};
use super::timeline;
use crate::client::Answer;
use crate::rules::{Answers, NameLoss};
use crate::search::Model;
use crate::state::{Reply, Word};

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Start {
        client: usize,
    },
    Vote {
        client: usize,
        node: usize,
    },
    Execute {
        client: usize,
        node: usize,
        bit: u8,
    },
    Hear {
        client: usize,
        node: usize,
        word: Word,
    },
    Downgrade {
        client: usize,
    },
    Upgrade {
        client: usize,
    },
    Extend {
        client: usize,
    },
    End {
        client: usize,
    },
    Release {
        client: usize,
        node: usize,
    },
    /// The entry of a client vanishes or expires.
    Lose {
        client: usize,
        node: usize,
        name: usize,
    },
}

pub(crate) type Next<const N: usize, const C: usize> = Vec<(Action, State<N, C>)>;

impl<const N: usize, const C: usize> Model for Rules<N, C> {
    type State = State<N, C>;
    type Action = Action;
    type Violation = Violation;

    fn initial(&self) -> State<N, C> {
        State::initial()
    }

    fn steps(&self, state: &State<N, C>, next: &mut Next<N, C>) {
        for client in 0..C {
            if state.seats[client].phase == Phase::Idle {
                let mut after = *state;
                self.start(&mut after, client);
                next.push((Action::Start { client }, after));
                continue;
            }
            for node in 0..N {
                self.losses(state, client, node, next);
                self.executions(state, client, node, next);
                self.answers(state, client, node, next);
                self.releases(state, client, node, next);
            }
            self.decisions(state, client, next);
            self.extends(state, client, next);
        }
    }

    fn canonical(&self, state: State<N, C>) -> State<N, C> {
        state.canonical()
    }

    fn violation(state: &State<N, C>) -> Option<Violation> {
        state.broken
    }

    fn most_states(&self) -> usize {
        self.most_states
    }

    fn print(&self, path: &[State<N, C>]) {
        timeline::print(self, path);
    }
}

impl<const N: usize, const C: usize> Rules<N, C> {
    fn losses(&self, state: &State<N, C>, client: usize, node: usize, next: &mut Next<N, C>) {
        for name in self.plans[client].names.iter() {
            let place = state.columns[node].places[name];
            if place.is_of(client, Mode::Shared) && place.outlived & 1 << client == 0 {
                let mut after = *state;
                self.lose(&mut after, client, node, name);
                next.push((Action::Lose { client, node, name }, after));
            }
        }
    }

    fn lose(&self, state: &mut State<N, C>, client: usize, node: usize, name: usize) {
        let is_loose = state.columns[node].cells[client].is_loose;
        let column = &mut state.columns[node];
        let place = &mut column.places[name];
        let others = place.readers & !place.outlived & !(1 << client);
        match self.mutation {
            Mutation::CommonEndLast if others != 0 => place.outlived |= 1 << client,
            Mutation::CommonEndFirst | Mutation::CommonEndLast => {
                (place.writer, place.readers, place.outlived) = (None, 0, 0);
            }
            _ => place.remove(client),
        }
        column.cells[client].is_loose &= column.stores(client);
        if self.loss == NameLoss::Valid && !is_loose {
            self.end(state, client);
        }
    }

    /// What `node` does next of what `client` sent to it.
    fn executions(&self, state: &State<N, C>, client: usize, node: usize, next: &mut Next<N, C>) {
        let cell = state.columns[node].cells[client];
        let mut push = |action, mut after: State<N, C>| {
            if self.answers == Answers::Prompt {
                self.hear_what_is_there(&mut after, client, node);
            }
            next.push((action, after));
        };
        if !cell.vote.is_done {
            let mut after = *state;
            self.vote(&mut after, client, node);
            return push(Action::Vote { client, node }, after);
        }
        let mut left = cell.queued;
        while left != 0 {
            let bit = 1 << left.trailing_zeros();
            left &= !bit;
            let mut after = *state;
            self.execute(&mut after, client, node, bit);
            push(Action::Execute { client, node, bit }, after);
            let overtaken = match self.mutation {
                Mutation::Reordered => true,
                Mutation::LateDowngrade => bit == command::DOWNGRADE,
                _ => false,
            };
            if !overtaken {
                break;
            }
        }
    }

    fn hear_what_is_there(&self, state: &mut State<N, C>, client: usize, node: usize) {
        if let Some((answer, reply)) = awaited(state, client, node)
            && reply.word != Word::Silent
        {
            self.hear(state, client, node, answer, reply.word);
        }
    }

    /// What `client` may hear from `node`: its answer, or that time ran out.
    fn answers(&self, state: &State<N, C>, client: usize, node: usize, next: &mut Next<N, C>) {
        let Some((answer, reply)) = awaited(state, client, node) else {
            return;
        };
        let mut hear = |word| {
            let mut after = *state;
            self.hear(&mut after, client, node, answer, word);
            next.push((Action::Hear { client, node, word }, after));
        };
        if reply.word != Word::Silent {
            hear(reply.word);
        }
        // A refusal counts like no answer, so there is no need to try both.
        if !matches!(reply.word, Word::Denied | Word::NotHeld) {
            hear(Word::Missing);
        }
    }

    /// Releases of a client that ended, each after all other commands to the node.
    fn releases(&self, state: &State<N, C>, client: usize, node: usize, next: &mut Next<N, C>) {
        let column = state.columns[node];
        let cell = column.cells[client];
        let is_last = cell.vote.is_done && cell.queued == 0;
        let is_over = self.loss == NameLoss::Valid && state.seats[client].phase == Phase::Over;
        if is_over && is_last && column.stores(client) {
            let mut after = *state;
            self.release(&mut after, client, node);
            next.push((Action::Release { client, node }, after));
        }
    }

    /// What `client` may decide by itself: to downgrade or upgrade, or to end.
    fn decisions(&self, state: &State<N, C>, client: usize, next: &mut Next<N, C>) {
        let seat = state.seats[client];
        let plan = self.plans[client];
        let holds = seat.phase == Phase::Holding;
        if holds && plan.downgrades && !seat.has_downgraded {
            let mut after = *state;
            self.send_downgrade(&mut after, client);
            next.push((Action::Downgrade { client }, after));
        }
        if holds && !seat.writes && plan.upgrade.is_some() && !seat.has_upgraded {
            let mut after = *state;
            self.send_upgrade(&mut after, client);
            next.push((Action::Upgrade { client }, after));
        }
        // Where names vanish by themselves, to give up is no more than never to go on.
        if self.loss == NameLoss::Valid && seat.phase != Phase::Over {
            let mut after = *state;
            self.end(&mut after, client);
            next.push((Action::End { client }, after));
        }
    }

    /// A holder extends on a majority. Its lease outlasts its entries on the other nodes.
    fn extends(&self, state: &State<N, C>, client: usize, next: &mut Next<N, C>) {
        let seat = state.seats[client];
        if !self.extends || seat.phase != Phase::Holding {
            return;
        }
        let of_any_kind = !seat.writes || self.is(Mutation::ExtendOfAnyKind);
        let mode = if of_any_kind { Mode::Shared } else { Mode::Exclusive };
        let names = self.plans[client].names;
        let extends = |node: usize| state.columns[node].is_of(client, names, mode);
        let majorities = (0u32..1 << N).filter(|nodes| nodes.count_ones() as usize == N / 2 + 1);
        for majority in majorities {
            let is_counted = |node: usize| majority & 1 << node != 0;
            if (0..N).filter(|node| is_counted(*node)).all(extends) {
                let mut after = *state;
                for (node, column) in after.columns.iter_mut().enumerate() {
                    column.cells[client].is_loose = !is_counted(node) && column.stores(client);
                }
                next.push((Action::Extend { client }, after));
            }
        }
    }
}

/// The answer of `node` for which `client` waits, with what is there of it.
fn awaited<const N: usize, const C: usize>(
    state: &State<N, C>,
    client: usize,
    node: usize,
) -> Option<(Answer, Reply)> {
    let seat = state.seats[client];
    let cell = state.columns[node].cells[client];
    let (answer, reply) = match seat.rounds {
        _ if !seat.is_asking() => return None,
        0 => (Answer::Ballot, cell.ballot),
        // In a stamp round, only voters are left with a ballot.
        _ if cell.ballot.heard => (Answer::Mark, cell.mark),
        _ => return None,
    };
    (!reply.heard).then_some((answer, reply))
}
