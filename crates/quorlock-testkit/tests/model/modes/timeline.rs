//! A counterexample as a list of events, with the nodes after each.

use super::rules::Rules;
use super::state::{Column, Place, State, Violation, command};
use super::steps::Action;
use crate::search::Model;
use crate::state::Word;

/// Prints how `path`, whose states have their nodes in any order, comes about with nodes that keep
/// their numbers.
pub(crate) fn print<const N: usize, const C: usize>(rules: &Rules<N, C>, path: &[State<N, C>]) {
    let mut state = path[0];
    for (at, wanted) in path.iter().enumerate().skip(1) {
        let mut next = Vec::new();
        rules.steps(&state, &mut next);
        let (action, after) = next.into_iter().find(|(_, after)| after.canonical() == *wanted).unwrap();
        println!("{at:>4}  {:<40} {}", describe(action), nodes(&after));
        for (client, (before, after)) in state.seats.iter().zip(&after.seats).enumerate() {
            if (before.holds(), before.writes) != (after.holds(), after.writes) {
                println!("      {} {}", name(client), hold(after.holds(), after.writes));
            }
        }
        state = after;
    }
    let returned = |bits: u32| (0..32).filter(|number| bits & 1 << number != 0).collect::<Vec<u32>>();
    let fences: Vec<Vec<u32>> = state.fences.iter().map(|bits| returned(*bits)).collect();
    println!("      {}; fences by name: {fences:?}", state.broken.map_or("as it should be", reason));
}

fn hold(holds: bool, writes: bool) -> &'static str {
    match (holds, writes) {
        (true, true) => "holds as a writer",
        (true, false) => "holds as a reader",
        (false, _) => "no longer holds",
    }
}

fn reason(violation: Violation) -> &'static str {
    match violation {
        Violation::DuplicateFence => "this fence was returned before",
        Violation::NotAboveEarlier => "this fence is not above one returned before the attempt started",
        Violation::HoldingOrder => "this fence is below that of an earlier holder",
        Violation::Conflict => "a writer and another client hold one name",
        Violation::LeftBehind => "the node executed the release and stores the client all the same",
        Violation::RefusedByEnded => "the node refused a writer for readers whose end had passed",
        Violation::UpgradedAfterUndo => "the node upgraded a client that had undone its upgrade",
    }
}

fn describe(action: Action) -> String {
    match action {
        Action::Start { client } => format!("{} starts", name(client)),
        Action::Vote { client, node } => format!("{}'s vote at node {node}", name(client)),
        Action::Execute { client, node, bit } => {
            format!("{}'s {} at node {node}", name(client), command_name(bit))
        }
        Action::Hear { client, node, word: Word::Missing } => {
            format!("{} waits no longer for node {node}", name(client))
        }
        Action::Hear { client, node, word } => format!("{} hears from node {node}: {word:?}", name(client)),
        Action::Downgrade { client } => format!("{} begins to downgrade", name(client)),
        Action::Upgrade { client } => format!("{} begins to upgrade", name(client)),
        Action::Extend { client } => format!("{} extends on a majority", name(client)),
        Action::End { client } => format!("{} ends", name(client)),
        Action::Release { client, node } => format!("{}'s release at node {node}", name(client)),
        Action::Lose { client, node, name: of } => {
            format!("{}'s entry for {} ends at node {node}", name(client), letter(of))
        }
    }
}

fn command_name(bit: u8) -> &'static str {
    match bit {
        command::DOWNGRADE => "downgrade",
        command::UPGRADE => "upgrade",
        command::ADD_READER => "new entry as a reader",
        command::UNDO => "undo of the upgrade",
        _ => "stamp",
    }
}

/// What each node stores of each name that is in use: the writer in capitals, readers in small
/// letters, and the counter.
fn nodes<const N: usize, const C: usize>(state: &State<N, C>) -> String {
    let place = |(at, place): (usize, &Place)| {
        let writer = place.writer.map(|writer| name(writer.into()));
        let readers = (0..C).filter(|client| place.readers & 1 << client != 0);
        let stored: String =
            writer.into_iter().chain(readers.map(|c| name(c).to_ascii_lowercase())).collect();
        let stored = if stored.is_empty() { "-".to_owned() } else { stored };
        format!("{}:{stored}:{}", letter(at), place.counter)
    };
    let is_used = |(_, place): &(usize, &Place)| **place != Place::default();
    let node = |column: &Column<C>| {
        let places: Vec<String> = column.places.iter().enumerate().filter(is_used).map(place).collect();
        format!("[{}]", places.join(" "))
    };
    state.columns.iter().map(node).collect::<Vec<_>>().join(" ")
}

fn letter(name: usize) -> char {
    char::from(b'a' + u8::try_from(name).unwrap())
}

fn name(client: usize) -> char {
    char::from(b'A' + u8::try_from(client).unwrap())
}
