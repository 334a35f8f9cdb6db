//! An operator who changes the list of nodes, one node at a time, as the operations guide says.

use crate::rng::Rng;
use crate::simulator::network::network_conditions::NetworkConditions;
use crate::simulator::participants::{NodeList, Participants, SPARES};
use crate::simulator::redis_server::RedisServer;
use crate::simulator::{CLOCK_TOLERANCE, InjectedBug, LONGEST_TTL};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The pause between the moment at which the last client has a list and the moment at which the
/// first may have the next: locks that outlived the clients of the list before are over, and
/// proposals are above the fences of those locks.
const PAUSE: Duration = LONGEST_TTL.saturating_add(CLOCK_TOLERANCE).saturating_add(CLOCK_TOLERANCE);

/// Changes the list until `end`; a change that began is completed.
pub(crate) async fn change(participants: Participants, mut rng: Rng, end: Instant) {
    let bug = participants.injected_bug();
    let mut list = participants.initial_list();
    let is_hasty = bug == Some(InjectedBug::HastyLists);
    let takes_two = bug == Some(InjectedBug::TwoNodesAtOnce);
    let longest = Duration::from_secs(if is_hasty { 4 } else { 12 });
    loop {
        sleep(rng.span(Duration::ZERO, longest)).await;
        if Instant::now() >= end {
            return;
        }
        // Two removals in a row are what the pause is for.
        let percent = match is_hasty || takes_two {
            true if list.len() >= participants.initial_list().len() => 0,
            true => 100,
            false => 50,
        };
        if is_hasty && percent == 0 {
            list = remove_two_hastily(&participants, &mut rng, &list).await;
            continue;
        }
        let before = list.clone();
        list = next(&participants, &mut rng, &list, percent);
        if takes_two {
            list = next(&participants, &mut rng, &list, percent);
        }
        if is_hasty {
            roll_out(&participants, &mut rng, (&before, &list), Duration::ZERO).await;
        } else {
            roll_out(&participants, &mut rng, (&before, &list), Duration::from_secs(6)).await;
            sleep(PAUSE).await;
        }
    }
}

/// Removes two nodes of `list`, one after the other without a pause. For a while before, clients reach a bare
/// majority that has both, so that locks which outlive their clients are on few other nodes.
async fn remove_two_hastily(participants: &Participants, rng: &mut Rng, list: &NodeList) -> NodeList {
    let order = shuffled(list, rng);
    let reached = &order[..list.len() / 2 + 1];
    let span = rng.span(Duration::from_secs(1), Duration::from_secs(3));
    for client in 0..participants.clients() {
        block(participants, client, reached, span);
    }
    sleep(span).await;
    let without = |list: &NodeList, removed: usize| -> NodeList {
        list.iter().copied().filter(|node| *node != removed).collect()
    };
    let first = without(list, order[0]);
    roll_out(participants, rng, (list, &first), Duration::ZERO).await;
    let second = without(&first, order[1]);
    roll_out(participants, rng, (&first, &second), Duration::ZERO).await;
    second
}

/// Restarts all clients with `list` in place of `before`, one after another, each within `longest`.
async fn roll_out(
    participants: &Participants,
    rng: &mut Rng,
    (before, list): (&NodeList, &NodeList),
    longest: Duration,
) {
    participants.record(&format!("the node list becomes {list:?}"));
    let clients: Vec<usize> = (0..participants.clients()).collect();
    for client in shuffled(&clients, rng) {
        sleep(rng.span(Duration::ZERO, longest)).await;
        participants.set_node_list(client, list.clone());
        if rng.chance(30) && !longest.is_zero() {
            separate(participants, (before, list), rng.span(longest / 6, longest));
        }
    }
    participants.record("all clients have the node list");
    participants.history().uses.list_changes += 1;
}

/// For `span`, each client reaches a majority of its own list and no more, and clients of different lists
/// have as few nodes in common as possible. If one node was added or removed, that is one; if two, none.
fn separate(participants: &Participants, (before, list): (&NodeList, &NodeList), span: Duration) {
    let majority = |list: &NodeList| list.len() / 2 + 1;
    let is_new = |node: &usize| !before.contains(node);
    let new_nodes = list.iter().copied().filter(is_new);
    let rest = list.iter().rev().copied().filter(|node| !is_new(node));
    let with_list: Vec<usize> = new_nodes.chain(rest).take(majority(list)).collect();
    let others = before.iter().copied().filter(|node| !with_list.contains(node));
    let shared = before.iter().copied().filter(|node| with_list.contains(node));
    let with_before: Vec<usize> = others.chain(shared).take(majority(before)).collect();
    participants.record(&format!("clients of the new list reach {with_list:?}, others {with_before:?}"));
    for client in 0..participants.clients() {
        let reached = if participants.list(client) == *list { &with_list } else { &with_before };
        block(participants, client, reached, span);
    }
}

/// For `span`, `client` reaches only the nodes in `reached`.
fn block(participants: &Participants, client: usize, reached: &[usize], span: Duration) {
    for path in participants.paths(client).into_iter().filter(|path| !reached.contains(&path.node())) {
        path.set_conditions(NetworkConditions { no_requests: true, ..path.conditions() });
        participants
            .events
            .schedule(Instant::now() + span, move || path.set_conditions(NetworkConditions::HEALTHY));
    }
}

/// The list with one node more, in `percent` of 100 cases, or less. A server that is added is
/// empty.
fn next(participants: &Participants, rng: &mut Rng, list: &NodeList, percent: u64) -> NodeList {
    let least = participants.initial_list().len().saturating_sub(SPARES).max(1);
    let spares: Vec<usize> =
        (0..participants.servers.len()).filter(|server| !list.contains(server)).collect();
    let adds = !spares.is_empty() && (list.len() <= least || rng.chance(percent));
    if adds {
        let added = *rng.pick(&spares);
        let host = &participants.servers[added];
        host.go_down(true);
        host.come_up(RedisServer::restart_empty);
        return list.iter().copied().chain([added]).collect();
    }
    let removed = *rng.pick(list);
    list.iter().copied().filter(|server| *server != removed).collect()
}

/// The same numbers in random order.
pub(crate) fn shuffled(numbers: &[usize], rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<_> = numbers.iter().map(|number| (rng.draw(), *number)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, number)| number).collect()
}
