//! A counterexample as a story that can be read.

use crate::rules::Rules;
use crate::search::Model;
use crate::state::{Column, State, Violation, Word};
use crate::steps::Action;

/// Prints how `path`, whose states have their nodes in any order, comes about with nodes that keep
/// their names.
pub(crate) fn print<const N: usize, const C: usize>(rules: &Rules<N, C>, path: &[State<N, C>]) {
    let mut state = path[0];
    for (at, wanted) in path.iter().enumerate().skip(1) {
        let mut next = Vec::new();
        rules.steps(&state, &mut next);
        let (action, after) = next.into_iter().find(|(_, after)| after.canonical() == *wanted).unwrap();
        println!("{at:>4}  {:<44} {}", describe(action, &after), nodes(&after));
        if after.fences != state.fences {
            println!("      returned with fence {}", (after.fences & !state.fences).ilog2());
        }
        state = after;
    }
    let returned: Vec<u32> = (0..32).filter(|number| state.fences & 1 << number != 0).collect();
    println!("      {}; fences returned: {returned:?}", state.broken.map_or("as it should be", reason));
}

fn reason(violation: Violation) -> &'static str {
    match violation {
        Violation::DuplicateFence => "returned with a fence that was returned before",
        Violation::NotAboveEarlier => "this fence is not above one returned before the attempt started",
        Violation::WithoutTheName => "too few nodes were raised to it where the name was the client's",
        Violation::HoldingOrder => "this fence is below that of an earlier holder",
        Violation::TwoHolders => "and another client still holds the lock",
    }
}

fn describe<const N: usize, const C: usize>(action: Action, after: &State<N, C>) -> String {
    let outcome = |client: usize, node: usize| match after.columns[node].holder {
        Some(holder) if usize::from(holder) == client => "it is set",
        _ => "refused",
    };
    match action {
        Action::Start { client } => format!("{} starts", name(client)),
        Action::Vote { client, node } => {
            format!("{}'s vote at node {node}: {}", name(client), outcome(client, node))
        }
        Action::Set { client, node } => {
            format!("{}'s SET at node {node}: {}", name(client), outcome(client, node))
        }
        Action::Raise { client, node } => format!("{}'s raise at node {node}", name(client)),
        Action::Stamp { client, node } => format!("{}'s stamp at node {node}", name(client)),
        Action::Hear { client, node, word: Word::Missing } => {
            format!("{} waits no longer for node {node}", name(client))
        }
        Action::Hear { client, node, word } => format!("{} hears from node {node}: {word:?}", name(client)),
        Action::LetGo { client } => format!("{} lets go", name(client)),
        Action::Release { client, node } => format!("{}'s release at node {node}", name(client)),
        Action::Vanish { node } => format!("the name vanishes from node {node}"),
        Action::Expire { node } => format!("the name expires at node {node}"),
    }
}

/// Who has each node, and its counter.
fn nodes<const N: usize, const C: usize>(state: &State<N, C>) -> String {
    let node = |column: &Column<C>| {
        let holder = column.holder.map_or("-".to_owned(), |holder| name(holder.into()).to_string());
        format!("{holder}:{}", column.counter)
    };
    state.columns.iter().map(node).collect::<Vec<_>>().join("  ")
}

fn name(client: usize) -> char {
    char::from(b'A' + u8::try_from(client).unwrap())
}
