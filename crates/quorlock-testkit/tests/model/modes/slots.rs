//! Semaphores: why a permit is a slot that the client chooses, and not a count on each node.
//!
//! Three clients ask for two permits. Each node answers each client once, in any order; no answer is
//! lost and no client ends.

use crate::search::{Model, Outcome, search};

const CLIENTS: usize = 3;
const PERMITS: u8 = 2;

/// How a node admits a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// While it stores fewer clients than there are permits. A client needs this many nodes.
    Count { needed: usize },
    /// To the first slot that is free there. A client needs a majority for one slot.
    NodeChooses,
    /// To the slot that the client chose. A client needs a majority.
    ClientChooses([u8; CLIENTS]),
}

#[derive(Clone, Copy, Debug)]
struct Semaphore<const N: usize> {
    admission: Admission,
}

/// What a node answered a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Answer {
    #[default]
    None,
    Refused,
    Slot(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State<const N: usize> {
    answers: [[Answer; CLIENTS]; N],
    broken: Option<Violation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Violation {
    TooManyHolders,
    /// All nodes have answered all clients, and no client holds a permit.
    NoHolder,
}

impl<const N: usize> Semaphore<N> {
    fn answer(&self, node: &[Answer; CLIENTS], client: usize) -> Answer {
        let is_free = |slot: &u8| !node.contains(&Answer::Slot(*slot));
        let slot = match self.admission {
            Admission::Count { .. } | Admission::NodeChooses => (0..PERMITS).find(is_free),
            Admission::ClientChooses(slots) => Some(slots[client]).filter(is_free),
        };
        slot.map_or(Answer::Refused, Answer::Slot)
    }

    fn holds(&self, state: &State<N>, client: usize) -> bool {
        let on = |slot: u8| state.answers.iter().filter(|node| node[client] == Answer::Slot(slot)).count();
        match self.admission {
            Admission::Count { needed } => (0..PERMITS).map(on).sum::<usize>() >= needed,
            _ => (0..PERMITS).any(|slot| on(slot) > N / 2),
        }
    }

    fn check(&self, state: &State<N>) -> Option<Violation> {
        let holders = (0..CLIENTS).filter(|client| self.holds(state, *client)).count();
        let is_decided = !state.answers.as_flattened().contains(&Answer::None);
        match holders {
            _ if holders > usize::from(PERMITS) => Some(Violation::TooManyHolders),
            0 if is_decided => Some(Violation::NoHolder),
            _ => None,
        }
    }
}

impl<const N: usize> Model for Semaphore<N> {
    type State = State<N>;
    type Action = ();
    type Violation = Violation;

    fn initial(&self) -> State<N> {
        State { answers: [[Answer::None; CLIENTS]; N], broken: None }
    }

    fn steps(&self, state: &State<N>, next: &mut Vec<((), State<N>)>) {
        for (node, client) in (0..N).flat_map(|node| (0..CLIENTS).map(move |client| (node, client))) {
            if state.answers[node][client] == Answer::None {
                let mut after = *state;
                after.answers[node][client] = self.answer(&state.answers[node], client);
                after.broken = self.check(&after);
                next.push(((), after));
            }
        }
    }

    fn canonical(&self, mut state: State<N>) -> State<N> {
        state.answers.sort_unstable();
        state
    }

    fn violation(state: &State<N>) -> Option<Violation> {
        state.broken
    }

    fn most_states(&self) -> usize {
        usize::MAX
    }

    fn print(&self, path: &[State<N>]) {
        let last = path.last().unwrap();
        last.answers.iter().enumerate().for_each(|(node, answers)| println!("  node {node}: {answers:?}"));
    }
}

fn breaks<const N: usize>(case: &str, admission: Admission, violation: Violation) {
    let outcome = search(case, Semaphore::<N> { admission });
    assert!(matches!(outcome, Outcome::Broken { violation: found, .. } if found == violation), "{outcome}");
}

fn is_safe<const N: usize>(case: &str, admission: Admission) {
    let outcome = search(case, Semaphore::<N> { admission });
    assert!(matches!(outcome, Outcome::Safe { .. }), "{case}: {outcome}");
}

#[test]
fn a_count_on_each_node_with_a_majority_gives_more_permits_than_there_are() {
    breaks::<3>("3 nodes count to 2", Admission::Count { needed: 2 }, Violation::TooManyHolders);
    breaks::<5>("5 nodes count to 2", Admission::Count { needed: 3 }, Violation::TooManyHolders);
}

/// Goal: it takes `needed` nodes with `3 * needed > 2 * nodes`. That is all three of three, where one
/// lost node or two clients at once leave no client with a permit, or four of five.
#[test]
fn a_count_on_each_node_is_safe_only_with_more_nodes_than_a_majority() {
    breaks::<3>("3 nodes count to 2, all needed", Admission::Count { needed: 3 }, Violation::NoHolder);
    is_safe::<5>("5 nodes count to 2, 4 needed", Admission::Count { needed: 4 });
}

#[test]
fn nodes_that_choose_the_slot_leave_all_clients_without_a_permit() {
    breaks::<3>("3 nodes choose the slot", Admission::NodeChooses, Violation::NoHolder);
    breaks::<5>("5 nodes choose the slot", Admission::NodeChooses, Violation::NoHolder);
}

#[test]
fn slots_that_clients_choose_are_permits() {
    is_safe::<3>("3 nodes, clients choose the slot", Admission::ClientChooses([0, 1, 0]));
    is_safe::<5>("5 nodes, clients choose the slot", Admission::ClientChooses([0, 1, 0]));
}
