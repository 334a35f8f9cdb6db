//! A counterexample as a list of events, with the nodes after each.

use super::rules::Rules;
use super::steps::Action;
use super::world::{Epoch, Node, Violation, World};
use crate::search::Model;

/// Prints how `path`, whose worlds have their nodes in any order, comes about with nodes that keep
/// their numbers.
pub(crate) fn print<const N: usize, const C: usize>(rules: &Rules<N, C>, path: &[World<N, C>]) {
    let mut world = path[0];
    for (at, wanted) in path.iter().enumerate().skip(1) {
        let mut next = Vec::new();
        rules.steps(&world, &mut next);
        let (action, after) = next.into_iter().find(|(_, after)| rules.canonical(*after) == *wanted).unwrap();
        println!("{at:>4}  {:<52} {}", describe(action, &after), nodes(&after));
        for (client, (before, after)) in world.clients.iter().zip(&after.clients).enumerate() {
            if before.holds() != after.holds() {
                let fence = after.fence;
                let verb = if after.holds() { "holds the lock" } else { "no longer holds it" };
                println!("      {} {verb}, fence {fence}", name(client));
            }
        }
        world = after;
    }
    println!("      {}", world.broken.map_or("as it should be", reason));
}

fn reason(violation: Violation) -> &'static str {
    match violation {
        Violation::TwoHolders => "two clients hold the lock",
        Violation::DuplicateFence => "this fence was returned before",
        Violation::NotAboveEarlier => "this fence is not above one returned before the attempt started",
        Violation::HoldingOrder => "this fence is below that of an earlier holder",
        Violation::HeldAfterForce => "the lock was released by force on a majority one ttl ago",
        Violation::CounterLowered => "the counter of this node was lowered",
        Violation::Resurrected => "the node had executed the holder's release",
    }
}

fn describe<const N: usize, const C: usize>(action: Action, after: &World<N, C>) -> String {
    match action {
        Action::Tick => format!("tick {}", after.now),
        Action::Start { client } => format!("{} starts", name(client)),
        Action::Deliver { client, node, command } => {
            format!("{}'s {command:?} at node {node}", name(client))
        }
        Action::Interrupted { client, node } => {
            format!("{}'s Vote at node {node}, which forgets meanwhile", name(client))
        }
        Action::GiveUp { client, node } => format!("{} waits no longer for node {node}", name(client)),
        Action::Verify { client, node } => format!("{} verifies the epoch of node {node}", name(client)),
        Action::Extend { client } => format!("{} begins to extend", name(client)),
        Action::Close { client } => format!("{} releases", name(client)),
        Action::Forget { node } => format!("node {node} forgets"),
        Action::Jump { node } => format!("the clock of node {node} jumps ahead"),
        Action::Force { node } => format!("the operator releases by force at node {node}"),
    }
}

/// What each node stores, until when, its counter and its epoch.
fn nodes<const N: usize, const C: usize>(world: &World<N, C>) -> String {
    let node = |node: &Node<C>| {
        let stored = match node.stored {
            Some(stored) => format!("{}<{}", name(stored.client.into()), stored.until),
            None => "-".to_owned(),
        };
        let epoch = match node.epoch {
            Epoch::None => " no epoch".to_owned(),
            Epoch::VotesFrom(0) => String::new(),
            Epoch::VotesFrom(from) => format!(" votes from {from}"),
            Epoch::Jumped(from) => format!(" votes from {from}, clock ahead"),
        };
        format!("[{stored} counter {}{epoch}]", node.counter)
    };
    world.nodes.iter().map(node).collect::<Vec<_>>().join(" ")
}

fn name(client: usize) -> char {
    char::from(b'A' + u8::try_from(client).unwrap())
}
