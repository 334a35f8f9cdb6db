//! All that can happen next in a state.

use crate::client::Answer;
use crate::rules::{Answers, NameLoss, Rules, Voting};
use crate::search::Model;
use crate::state::{Phase, Progress, Reply, State, Violation, Word};
use crate::timeline;

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Start { client: usize },
    Vote { client: usize, node: usize },
    Set { client: usize, node: usize },
    Raise { client: usize, node: usize },
    Stamp { client: usize, node: usize },
    Hear { client: usize, node: usize, word: Word },
    LetGo { client: usize },
    Release { client: usize, node: usize },
    Vanish { node: usize },
    Expire { node: usize },
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
        for node in 0..N {
            self.losses(state, node, next);
        }
        for client in 0..C {
            if state.seats[client].phase == Phase::Idle {
                self.start(state, client, next);
                continue;
            }
            for node in 0..N {
                self.executions(state, client, node, next);
                self.answers(state, client, node, next);
            }
            self.letting_go(state, client, next);
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
    fn losses(&self, state: &State<N, C>, node: usize, next: &mut Next<N, C>) {
        let Some(holder) = state.columns[node].holder else {
            return;
        };
        let mut after = *state;
        after.columns[node].holder = None;
        match self.loss {
            NameLoss::Any => next.push((Action::Vanish { node }, after)),
            NameLoss::Valid => {
                after.end(holder.into(), Phase::Over);
                next.push((Action::Expire { node }, after));
            }
        }
    }

    fn start(&self, state: &State<N, C>, client: usize, next: &mut Next<N, C>) {
        if self.token_is_reused && client == 1 && state.seats[0].phase != Phase::Over {
            return;
        }
        let mut after = *state;
        after.seats[client].phase = Phase::Running;
        after.seats[client].before = state.highest_fence();
        next.push((Action::Start { client }, after));
    }

    /// What `node` does next of what `client` sent to it, in the order in which it was sent.
    fn executions(&self, state: &State<N, C>, client: usize, node: usize, next: &mut Next<N, C>) {
        let mut after = *state;
        let cell = state.columns[node].cells[client];
        let action = match (cell.vote, self.voting) {
            (Progress::Sent, Voting::Atomic) => {
                self.set(&mut after, client, node);
                self.raise(&mut after, client, node);
                Action::Vote { client, node }
            }
            (Progress::Sent, Voting::Native) => {
                self.set(&mut after, client, node);
                Action::Set { client, node }
            }
            (Progress::Won | Progress::Lost, _) => {
                self.raise(&mut after, client, node);
                Action::Raise { client, node }
            }
            (Progress::Done, _) if cell.queued != 0 => {
                self.stamp_one(&mut after, client, node);
                Action::Stamp { client, node }
            }
            (Progress::Done, _) => return,
        };
        if self.answers == Answers::Prompt {
            self.hear_what_is_there(&mut after, client, node);
        }
        next.push((action, after));
    }

    fn hear_what_is_there(&self, state: &mut State<N, C>, client: usize, node: usize) {
        if let Some((answer, reply)) = awaited(state, client, node)
            && reply.word != Word::Silent
        {
            self.hear(state, client, node, answer, reply.word);
        }
    }

    fn set(&self, state: &mut State<N, C>, client: usize, node: usize) {
        let column = &mut state.columns[node];
        column.cells[client].vote = match column.holder {
            Some(_) => Progress::Lost,
            None => {
                column.holder = Some(u8::try_from(client).unwrap());
                Progress::Won
            }
        };
    }

    fn raise(&self, state: &mut State<N, C>, client: usize, node: usize) {
        let column = &mut state.columns[node];
        let proposal = self.proposals[client];
        let raised = column.counter < proposal || (!self.vote_is_strict && column.counter == proposal);
        column.counter = column.counter.max(proposal);
        let cell = &mut column.cells[client];
        let word = match (cell.vote, self.voting) {
            (Progress::Lost, _) => Word::Denied,
            _ if raised => Word::Confirmed,
            (_, Voting::Atomic) => Word::Voted(column.counter),
            (_, Voting::Native) => Word::Voted(0),
        };
        cell.vote = Progress::Done;
        let seat = state.seats[client];
        if seat.phase == Phase::Running && seat.rounds == 0 && !cell.ballot.heard {
            cell.ballot = Reply { word, heard: false };
        }
    }

    /// Executes the first stamp that waits for `node`.
    fn stamp_one(&self, state: &mut State<N, C>, client: usize, node: usize) {
        let seat = state.seats[client];
        let column = &mut state.columns[node];
        let cell = &mut column.cells[client];
        let round = cell.queued.trailing_zeros() as usize;
        cell.queued &= cell.queued - 1;
        let held = column.holder.is_some_and(|holder| self.same_token(holder.into(), client));
        let word = if held || !self.stamp_checks_token {
            let least = column.counter + u8::from(self.stamp_is_strict);
            column.counter = least.max(seat.targets[round]);
            if held { Word::Stamped(column.counter) } else { Word::Hollow(column.counter) }
        } else {
            Word::NotHeld
        };
        let mark = &mut cell.mark;
        if seat.phase == Phase::Running && usize::from(seat.rounds) == round + 1 && !mark.heard {
            *mark = Reply { word, heard: false };
        }
        if seat.phase != Phase::Running {
            state.end(client, seat.phase);
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

    /// An attempt given up, or a hold that ends; and its releases, which may come late and more
    /// than once.
    fn letting_go(&self, state: &State<N, C>, client: usize, next: &mut Next<N, C>) {
        if self.loss == NameLoss::Any {
            // Names vanish by themselves, and to give up is no more than never to go on.
            return;
        }
        if state.seats[client].phase != Phase::Over {
            let mut after = *state;
            after.end(client, Phase::Over);
            next.push((Action::LetGo { client }, after));
            return;
        }
        for node in 0..N {
            let held_by = |holder: u8| self.same_token(holder.into(), client);
            if state.columns[node].holder.is_some_and(held_by) {
                let mut after = *state;
                after.columns[node].holder = None;
                next.push((Action::Release { client, node }, after));
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
    let (answer, reply) = match (seat.phase, seat.rounds) {
        (Phase::Running, 0) => (Answer::Ballot, cell.ballot),
        // In a stamp round, only voters are left with a ballot.
        (Phase::Running, _) if cell.ballot.heard => (Answer::Mark, cell.mark),
        _ => return None,
    };
    (!reply.heard).then_some((answer, reply))
}
