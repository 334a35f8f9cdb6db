//! Servers that forget, are replaced or have a wrong clock: none votes before its time.
#![allow(clippy::unwrap_used)]

mod net;

use net::{Net, SOON, kinds, secs, until_granted};
use quorlock::node::NodeError;
use quorlock::{AcquireError, Locker, NodeOutcome};
use quorlock_testkit::{ClockShim, Fsync, Server, Servers, until};
use std::path::Path;
use std::time::Duration;

/// Waits until exactly `count` nodes are quarantined for a client that acquires `name`; returns the longest time left.
async fn until_quarantined(locker: &Locker, name: &str, count: usize) -> Duration {
    let mut left = Duration::ZERO;
    until(&format!("{count} are quarantined"), SOON, async || {
        match locker.named(name).unwrap().try_acquire().await {
            Err(AcquireError::NoQuorum { nodes, .. }) => {
                let times: Vec<_> = nodes
                    .iter()
                    .filter_map(|report| match report.outcome {
                        NodeOutcome::Failed(NodeError::Quarantined { left }) => Some(left),
                        _ => None,
                    })
                    .collect();
                left = times.iter().copied().max().unwrap_or_default();
                times.len() == count
            }
            _ => false,
        }
    })
    .await;
    left
}

#[tokio::test]
async fn whatever_removes_the_memory_or_its_mark_is_caught_by_the_next_vote() {
    let ways: [&[&[&str]]; 5] = [
        &[&["FLUSHALL"]],
        &[&["FLUSHDB", "ASYNC"]],
        &[&["DEL", "quorlock:epoch"]],
        &[&["SWAPDB", "0", "1"]],
        &[&["DEL", "quorlock:epoch"], &["RPUSH", "quorlock:epoch", "x"]],
    ];
    let net = Net::start(0).await;
    let (holder, rival) = (net.locker().await, net.builder().build().unwrap());
    for way in ways {
        quorlock_testkit::init_nodes(&holder).await;
        until_granted(&rival, "warm").await;
        let guard = holder.named("a").unwrap().watchdog(false).acquire().await.unwrap();
        for server in &net.servers[..2] {
            for command in way {
                server.cli(command);
            }
        }
        for _ in 0..5 {
            let refused = rival.named("a").unwrap().try_acquire().await;
            assert!(refused.is_err(), "{way:?}: two hold the lock");
        }
        until_quarantined(&rival, "b", 2).await;
        drop(guard);
    }
}

#[tokio::test]
async fn a_server_with_an_older_log_does_not_vote() {
    let mut servers = Servers::start_like(&Server::builder().aof(Fsync::Always), 3);
    let build = || Locker::builder().nodes(servers.urls()).node_timeout(net::NODE_TIMEOUT).build().unwrap();
    let (holder, rival) = (build(), build());
    quorlock_testkit::init_nodes(&holder).await;
    let log = |server: &Server| server.directory().join("appendonlydir");
    for server in &servers[..2] {
        copy(&log(server), &server.directory().join("backup"));
    }
    let guard = holder.named("a").unwrap().watchdog(false).acquire().await.unwrap();
    for server in &mut servers[..2] {
        server.kill();
        std::fs::remove_dir_all(log(server)).unwrap();
        copy(&server.directory().join("backup"), &log(server));
        server.restart();
        assert_eq!(server.cli(&["EXISTS", "a", "quorlock:epoch"]), "1", "it has the old epoch, not the lock");
    }
    let left = until_quarantined(&rival, "a", 2).await;
    assert!(left > secs(30), "{left:?}");
    drop(guard);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[tokio::test]
async fn a_server_that_followed_another_does_not_vote_with_that_memory() {
    let net = Net::start(0).await;
    let locker = net.locker().await;
    let other = Server::start();
    // A primary that is a node of other clients, with an epoch of its own.
    let theirs = Locker::builder().nodes([other.url()]).restart_guard(quorlock::RestartGuard::Strict).build();
    quorlock_testkit::init_nodes(&theirs.unwrap()).await;
    for server in &net.servers[..2] {
        server.cli(&["CONFIG", "SET", "masteruser", "testkit", "masterauth", "testkit"]);
        server.cli(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
        until("it follows", SOON, async || {
            server.cli(&["INFO", "replication"]).contains("master_link_status:up")
        })
        .await;
        server.cli(&["REPLICAOF", "NO", "ONE"]);
    }
    until_quarantined(&locker, "a", 2).await;
}

#[tokio::test]
async fn a_node_declared_fresh_by_another_client_is_noticed() {
    let net = Net::start(0).await;
    let locker = net.builder().build().unwrap();
    until_quarantined(&locker, "a", 3).await;
    let waiting = tokio::spawn(async move { locker.named("a").unwrap().wait_timeout(SOON).acquire().await });
    quorlock_testkit::init_nodes(&net.builder().build().unwrap()).await;
    drop(waiting.await.unwrap().unwrap());
}

#[tokio::test]
async fn a_clock_that_jumps_ahead_does_not_lift_the_quarantine_for_those_who_saw_it() {
    let clock = ClockShim::new();
    let net = Net::start_like(&Server::builder().clock(&clock), 0).await;
    let locker = net.builder().build().unwrap();
    until_quarantined(&locker, "a", 3).await;
    clock.jump_wall(secs(3600));
    for server in net.servers.iter() {
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    }
    until("it is told", SOON, async || {
        let ahead = |node: &quorlock::node::NodeHealth| node.health.clock_ahead_micros.unwrap_or_default();
        locker.health().iter().all(|node| ahead(node) > 3_000_000_000)
    })
    .await;
    let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(kinds(&refused), ["quarantined"; 3]);
}

/// Goal: a server whose clock was a day ahead when its epoch began is not out for a day.
#[tokio::test]
async fn an_epoch_begun_by_a_clock_that_was_ahead_ages_after_the_clock_was_set_back() {
    let clock = ClockShim::new();
    clock.jump_wall(secs(86_400));
    let net = Net::start_like(&Server::builder().clock(&clock), 0).await;
    net.builder().build().unwrap().connect().await.unwrap_err();
    clock.jump_wall_back(secs(86_400));
    let locker = net.builder().build().unwrap();
    until_quarantined(&locker, "a", 3).await;
    for server in net.servers.iter() {
        let epoch = server.cli(&["GET", "quorlock:epoch"]);
        let since: u64 = epoch.split(':').nth(2).unwrap().parse().unwrap();
        let now: u64 = server.cli(&["TIME"]).lines().next().unwrap().parse().unwrap();
        assert!(since <= (now + 1) * 1000, "{epoch} is {} s ahead", since / 1000 - now);
    }
}
