//! Goal: the drivers of the other clients keep to the line protocol, so that interoperability tests
//! can trust them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use quorlock_testkit::{Peer, Servers, until_blocking};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(60);

#[test]
fn redlock_py_locks_and_unlocks() {
    against_itself(Peer::python);
}

#[test]
fn node_redlock_locks_and_unlocks() {
    against_itself(Peer::node);
}

#[test]
fn redsync_locks_and_unlocks() {
    against_itself(Peer::redsync);
}

fn against_itself(start: fn(&[String]) -> Option<Peer>) {
    let servers = Servers::start(3);
    let urls = servers.urls();
    let (Some(mut one), Some(mut other)) = (start(&urls), start(&urls)) else {
        return;
    };
    let value = one.lock("job", TTL).expect("it is free");
    // Some answer as soon as a majority did.
    until_blocking("all servers have it", TTL, || servers.iter().all(|it| it.cli(&["GET", "job"]) == value));
    assert_eq!(other.lock("job", TTL), None);
    assert!(!other.unlock("job", "somebody-else"));
    assert!(one.unlock("job", &value));
    assert!(!one.unlock("job", &value), "already gone");
    let value = other.lock("job", TTL).expect("free again");
    assert!(other.unlock("job", &value));
}

#[test]
fn the_peers_exclude_each_other() {
    let servers = Servers::start(3);
    let urls = servers.urls();
    let peers = [Peer::python(&urls), Peer::node(&urls), Peer::redsync(&urls)];
    let mut peers: Vec<Peer> = peers.into_iter().flatten().collect();
    for holder in 0..peers.len() {
        let value = peers[holder].lock("job", TTL).expect("it is free");
        for rival in (0..peers.len()).filter(|rival| *rival != holder) {
            assert_eq!(peers[rival].lock("job", TTL), None);
        }
        assert!(peers[holder].unlock("job", &value));
    }
}
