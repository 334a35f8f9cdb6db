//! An operator who changes the list of nodes, one node at a time, as the operations guide says.

use super::cast::Cast;
use super::link::TOLERANCE;
use super::plant::Plant;
use super::rng::Rng;
use super::{LONGEST_TTL, World};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Servers that are started with the others and are in no list at first.
pub(super) const SPARES: usize = 2;

/// The numbers of the servers that a process knows as its nodes.
pub(super) type NodeList = Arc<[usize]>;

/// What must pass from the moment at which the last client has a list until the first may have the next: locks that
/// outlived the clients of the list before are over, and proposals are above the fences of those locks.
const PAUSE: Duration = LONGEST_TTL.saturating_add(TOLERANCE).saturating_add(TOLERANCE);

/// Changes the list until `end`; a change that began is completed.
pub(super) async fn change(world: World, mut rng: Rng, end: Instant) {
    let cast = world.cast();
    let plant = cast.plant();
    let mut list = cast.first_list();
    let is_hasty = plant == Some(Plant::HastyLists);
    let longest = Duration::from_secs(if is_hasty { 4 } else { 12 });
    loop {
        sleep(rng.span(Duration::ZERO, longest)).await;
        if Instant::now() >= end {
            return;
        }
        // Two removals in a row are what the pause is for.
        let percent = match is_hasty {
            true if list.len() >= cast.first_list().len() => 0,
            true => 100,
            false => 50,
        };
        list = next(&cast, &mut rng, &list, percent);
        if plant == Some(Plant::TwoNodesAtOnce) {
            list = next(&cast, &mut rng, &list, percent);
        }
        if is_hasty {
            roll_out(&cast, &mut rng, &list, Duration::ZERO).await;
            list = next(&cast, &mut rng, &list, percent);
            roll_out(&cast, &mut rng, &list, Duration::ZERO).await;
        } else {
            roll_out(&cast, &mut rng, &list, Duration::from_secs(6)).await;
            sleep(PAUSE).await;
        }
    }
}

/// Restarts all clients with `list`, one after another, each within `longest`.
async fn roll_out(cast: &Cast, rng: &mut Rng, list: &NodeList, longest: Duration) {
    cast.tell(&format!("the node list becomes {list:?}"));
    let clients: Vec<usize> = (0..cast.clients()).collect();
    for client in in_any_order(&clients, rng) {
        sleep(rng.span(Duration::ZERO, longest)).await;
        cast.give_list(client, list.clone());
    }
    cast.tell("all clients have the node list");
    cast.history.lock().unwrap().uses.list_changes += 1;
}

/// The list with one node more, in `percent` of 100 cases, or less. A server that is added is empty.
fn next(cast: &Cast, rng: &mut Rng, list: &NodeList, percent: u64) -> NodeList {
    let least = cast.first_list().len().saturating_sub(SPARES).max(1);
    let spares: Vec<usize> = (0..cast.servers.len()).filter(|server| !list.contains(server)).collect();
    let adds = !spares.is_empty() && (list.len() <= least || rng.chance(percent));
    if adds {
        let added = *rng.pick(&spares);
        cast.servers[added].lock().unwrap().restart(false);
        return list.iter().copied().chain([added]).collect();
    }
    let removed = *rng.pick(list);
    list.iter().copied().filter(|server| *server != removed).collect()
}

/// The same numbers in an order that the stream decides.
pub(super) fn in_any_order(numbers: &[usize], rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<_> = numbers.iter().map(|number| (rng.draw(), *number)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, number)| number).collect()
}
