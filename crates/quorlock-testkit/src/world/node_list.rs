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
    let (least, servers) = ((list.len() - 1).max(1), cast.servers.len());
    loop {
        sleep(rng.span(Duration::ZERO, Duration::from_secs(12))).await;
        if Instant::now() >= end {
            return;
        }
        let steps = if plant == Some(Plant::TwoNodesAtOnce) { 2 } else { 1 };
        for _ in 0..steps {
            list = next(&cast, &mut rng, &list, least, servers);
        }
        cast.tell(&format!("the node list becomes {list:?}"));
        let slowest = Duration::from_secs(if plant == Some(Plant::HastyLists) { 0 } else { 6 });
        for client in in_any_order(cast.clients(), &mut rng) {
            sleep(rng.span(Duration::ZERO, slowest)).await;
            cast.give_list(client, list.clone());
        }
        cast.tell("all clients have the node list");
        cast.history.lock().unwrap().uses.list_changes += 1;
        if plant != Some(Plant::HastyLists) {
            sleep(PAUSE).await;
        }
    }
}

/// The list with one node more or less. A server that is added is empty.
fn next(cast: &Cast, rng: &mut Rng, list: &NodeList, least: usize, servers: usize) -> NodeList {
    let spares: Vec<usize> = (0..servers).filter(|server| !list.contains(server)).collect();
    let adds = !spares.is_empty() && (list.len() <= least || rng.chance(50));
    if adds {
        let added = *rng.pick(&spares);
        cast.servers[added].lock().unwrap().restart(false);
        return list.iter().copied().chain([added]).collect();
    }
    let removed = *rng.pick(list);
    list.iter().copied().filter(|server| *server != removed).collect()
}

fn in_any_order(count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).map(|number| (rng.draw(), number)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, number)| number).collect()
}
