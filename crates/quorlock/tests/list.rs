//! Listing the held locks of real servers and of a directory.
#![allow(clippy::unwrap_used)]

mod net;

use net::{Net, SOON};
use quorlock::node::Names;
use quorlock::{Holder, ListError, Listing, Locker, RestartGuard};
use quorlock_testkit::{Server, Servers, until};
use std::time::Duration;

fn names(listing: &Listing) -> Vec<&str> {
    listing.held.iter().map(|seen| seen.name.as_str()).collect()
}

#[tokio::test]
async fn any_majority_of_servers_knows_every_held_lock() {
    let mut net = Net::start(0).await;
    let locker = net.locker().await;
    let odd = ["a b/c", "*?[x]", "\u{c7a0}\u{ae08}", "plain"];
    let mut guards = Vec::new();
    for name in odd {
        guards.push(locker.named(name).unwrap().reason("listed").acquire().await.unwrap());
    }
    drop(locker.named("released").unwrap().acquire().await.unwrap().release().await);
    for server in net.servers.iter() {
        server.cli(&["SET", "foreign", "x"]);
        server.cli(&["SET", "quorlock:fence:{odd-one-out}", "no counter"]);
    }
    let mut expected = odd;
    expected.sort_unstable();
    for dead in 0..2 {
        let listing = locker.list().await.unwrap();
        assert_eq!(names(&listing), expected, "with {dead} dead");
        assert!(listing.complete);
        let Holder::Owner { owner, .. } = &listing.held[0].holder else { panic!("{listing:?}") };
        assert_eq!(owner.reason.as_deref(), Some("listed"));
        net.servers[dead].kill();
    }
    let error = locker.list().await.unwrap_err();
    assert!(matches!(error, ListError::NoQuorum { .. }), "{error}");
    assert!(error.to_string().contains("cannot connect"), "{error}");
}

#[tokio::test]
async fn a_server_with_many_other_keys_is_walked_in_steps_and_in_its_own_database() {
    let server = Server::start();
    let url = format!("{}/5", server.url());
    let locker = Locker::builder().nodes([url]).restart_guard(RestartGuard::Off).build().unwrap();
    let fill = "for i = 1, 20000 do redis.call('SET', 'other:' .. i, i) end \
        for i = 1, 3000 do redis.call('ZADD', 'quorlock:fence:{old:' .. i .. '}', i, 'f') end";
    let mut connection = server.connect().unwrap();
    connection.ask(&["SELECT", "5"]).unwrap();
    connection.ask(&["EVAL", fill, "0"]).unwrap();
    let guard = locker.named("held").unwrap().acquire().await.unwrap();
    let listing = locker.list().await.unwrap();
    assert_eq!((names(&listing), listing.complete), (vec!["held"], true));
    drop(guard);
}

#[tokio::test]
async fn names_that_were_used_once_hide_no_lock_and_too_many_that_are_held_are_cut() {
    let servers = Servers::start(1);
    let locker = Locker::builder().nodes(servers.urls()).build().unwrap();
    let fill = "for i = 1, 12000 do redis.call('ZADD', 'quorlock:fence:{old:' .. i .. '}', i, 'f') end";
    servers[0].cli(&["EVAL", fill, "0"]);
    let guard = locker.named("zz").unwrap().acquire().await.unwrap();
    let listing = locker.list().await.unwrap();
    assert_eq!((names(&listing), listing.complete), (vec!["zz"], true));
    let fill = "for i = 1, 12000 do redis.call('SET', 'old:' .. i, 'x') end";
    servers[0].cli(&["EVAL", fill, "0"]);
    let listing = locker.list().await.unwrap();
    assert!(listing.held.len() <= Names::MOST && !listing.complete);
    drop(guard);
}

#[tokio::test]
async fn a_user_that_may_not_scan_is_told_so() {
    let server = Server::builder().acl("user app on >pw ~* &* +@all -scan").start();
    let url = format!("redis://app:pw@127.0.0.1:{}", server.port());
    let locker = Locker::builder().nodes([url]).build().unwrap();
    let error = locker.list().await.unwrap_err();
    assert!(error.to_string().contains("permission denied"), "{error}");
}

#[tokio::test]
async fn votes_are_not_delayed_by_a_list() {
    let net = Net::start(0).await;
    let locker = net.locker().await;
    let fill = "for i = 1, 9000 do redis.call('ZADD', 'quorlock:fence:{old:' .. i .. '}', i, 'f') end";
    for server in net.servers.iter() {
        server.cli(&["EVAL", fill, "0"]);
    }
    let listing = tokio::spawn({
        let locker = locker.clone();
        async move { locker.list().await }
    });
    let mut cycles = 0;
    let start = std::time::Instant::now();
    while !listing.is_finished() {
        assert!(start.elapsed() < Duration::from_secs(60), "the listing does not end");
        let guard = locker.named("busy").unwrap().wait_timeout(Duration::ZERO).acquire().await.unwrap();
        net::release(guard).await;
        cycles += 1;
    }
    assert!(cycles > 5, "{cycles}");
    assert!(listing.await.unwrap().unwrap().complete);
}

#[tokio::test]
async fn the_locks_of_a_directory_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file:{}", dir.path().display());
    let open =
        || Locker::builder().nodes([url.clone()]).node_timeout(Duration::from_secs(2)).build().unwrap();
    let (one, other) = (open(), open());
    quorlock_testkit::init_nodes(&one).await;
    let guard = one.named("a/b").unwrap().acquire().await.unwrap();
    drop(one.named("gone").unwrap().acquire().await.unwrap());
    until("only one is held", SOON, async || names(&other.list().await.unwrap()) == ["a/b"]).await;
    drop(guard);
}

#[test]
fn blocking_code_lists_too() {
    let locker = Locker::builder().nodes(["memory:list"]).build_blocking().unwrap();
    let guard = locker.named("a").unwrap().acquire().unwrap();
    assert_eq!(names(&locker.list().unwrap()), ["a"]);
    let extended = locker.named("a").unwrap().extend_token(guard.token(), Duration::from_secs(9)).unwrap();
    assert_eq!(extended.fence, Some(guard.fence()));
    assert!(guard.time_left() > Duration::ZERO && guard.votes() == 1);
}
