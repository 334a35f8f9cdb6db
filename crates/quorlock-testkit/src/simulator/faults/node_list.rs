//! An operator who changes the list of nodes, one node at a time, as the operations guide says.

use crate::rng::Rng;
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
    let longest = Duration::from_secs(if is_hasty { 4 } else { 12 });
    loop {
        sleep(rng.span(Duration::ZERO, longest)).await;
        if Instant::now() >= end {
            return;
        }
        // Two removals in a row are what the pause is for.
        let percent = match is_hasty {
            true if list.len() >= participants.initial_list().len() => 0,
            true => 100,
            false => 50,
        };
        list = next(&participants, &mut rng, &list, percent);
        if bug == Some(InjectedBug::TwoNodesAtOnce) {
            list = next(&participants, &mut rng, &list, percent);
        }
        if is_hasty {
            roll_out(&participants, &mut rng, &list, Duration::ZERO).await;
            list = next(&participants, &mut rng, &list, percent);
            roll_out(&participants, &mut rng, &list, Duration::ZERO).await;
        } else {
            roll_out(&participants, &mut rng, &list, Duration::from_secs(6)).await;
            sleep(PAUSE).await;
        }
    }
}

/// Restarts all clients with `list`, one after another, each within `longest`.
async fn roll_out(participants: &Participants, rng: &mut Rng, list: &NodeList, longest: Duration) {
    participants.record(&format!("the node list becomes {list:?}"));
    let clients: Vec<usize> = (0..participants.clients()).collect();
    for client in shuffled(&clients, rng) {
        sleep(rng.span(Duration::ZERO, longest)).await;
        participants.set_node_list(client, list.clone());
    }
    participants.record("all clients have the node list");
    participants.history().uses.list_changes += 1;
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
