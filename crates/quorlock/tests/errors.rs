//! Servers that refuse: the client reports the typed cause, and works again once it is gone.
#![allow(clippy::unwrap_used)]

mod net;

use net::{Net, SOON, kinds, release, until_granted, until_refused};
use quorlock::{AcquireError, ReleaseOutcome};
use quorlock_testkit::{Port, Server, until};
use std::thread::JoinHandle;

/// Asks the first two servers.
fn ask_two(net: &Net, command: &[&str]) {
    for server in &net.servers[..2] {
        let answer = server.cli(command);
        assert!(!answer.contains("ERR"), "{command:?}: {answer}");
    }
}

#[tokio::test]
async fn servers_without_memory_are_named_and_still_extend_and_release() {
    let net = Net::start(0).await;
    let locker = net.locker().await;
    let held = locker.named("held").unwrap().acquire().await.unwrap();
    ask_two(&net, &["CONFIG", "SET", "maxmemory", "1"]);
    until_refused(&locker, "a", "out_of_memory").await;
    held.extend().await.unwrap();
    release(held).await;
    // A new client reports the cause, too, although it cannot write an epoch.
    ask_two(&net, &["DEL", "quorlock:epoch"]);
    until_refused(&net.builder().build().unwrap(), "a", "out_of_memory").await;
    ask_two(&net, &["CONFIG", "SET", "maxmemory", "0"]);
    quorlock_testkit::init_nodes(&locker).await;
    until_granted(&locker, "a").await;
    net.until_free("a").await;
}

fn block(server: &Server) -> JoinHandle<()> {
    let mut connection = server.connect().unwrap();
    std::thread::spawn(move || {
        // Ends with an error once the script is killed.
        let _ = connection.ask(&["EVAL", "while true do end", "0"]);
    })
}

#[tokio::test]
async fn servers_that_are_busy_are_named_and_get_the_releases_afterwards() {
    let net = Net::start_like(&Server::builder().line("busy-reply-threshold 50"), 0).await;
    let locker = net.locker().await;
    let held = locker.named("held").unwrap().acquire().await.unwrap();
    let blocked: Vec<_> = net.servers[..2].iter().map(block).collect();
    until_refused(&locker, "a", "busy").await;
    drop(held);
    // A client that comes now reports the same.
    until_refused(&net.builder().build().unwrap(), "a", "busy").await;
    ask_two(&net, &["SCRIPT", "KILL"]);
    for thread in blocked {
        thread.join().unwrap();
    }
    until_granted(&locker, "a").await;
    net.until_free("held").await;
    net.until_free("a").await;
}

#[tokio::test]
async fn servers_that_cannot_save_are_named_and_get_the_releases_afterwards() {
    let net = Net::start_like(&Server::builder().line("enable-protected-configs yes"), 0).await;
    let locker = net.locker().await;
    let held = locker.named("held").unwrap().acquire().await.unwrap();
    let disk = tempfile::tempdir().unwrap();
    let gone = disk.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    ask_two(&net, &["CONFIG", "SET", "save", "3600 1", "dir", gone.to_str().unwrap()]);
    std::fs::remove_dir(&gone).unwrap();
    ask_two(&net, &["BGSAVE"]);
    until_refused(&locker, "a", "misconfigured").await;
    drop(held);
    ask_two(&net, &["CONFIG", "SET", "save", "", "stop-writes-on-bgsave-error", "no"]);
    until_granted(&locker, "a").await;
    net.until_free("held").await;
}

#[tokio::test]
async fn servers_made_replicas_are_named_and_vote_again_as_primaries() {
    let net = Net::start(0).await;
    let locker = net.locker().await;
    locker.connect().await.unwrap();
    let nobody = Port::claim();
    let port = nobody.number().to_string();
    ask_two(&net, &["REPLICAOF", "127.0.0.1", &port]);
    until_refused(&locker, "a", "read_only").await;
    ask_two(&net, &["CLIENT", "KILL", "TYPE", "normal"]);
    until_refused(&locker, "a", "replica").await;
    ask_two(&net, &["REPLICAOF", "NO", "ONE"]);
    until_granted(&locker, "a").await;
    net.until_whole(&locker).await;
}

#[tokio::test]
async fn a_user_who_loses_a_right_is_told_so_and_goes_on_with_it() {
    let all = "user app on >pw ~* &* +@all";
    let net = Net::start_like(&Server::builder().acl(all), 0).await;
    let urls = net.servers.iter().map(|it| format!("redis://app:pw@127.0.0.1:{}", it.port()));
    let locker = net::Locker::builder().nodes(urls).node_timeout(net::NODE_TIMEOUT).build().unwrap();
    quorlock_testkit::init_nodes(&locker).await;
    for right in ["set", "zadd", "getrange"] {
        ask_two(&net, &["ACL", "SETUSER", "app", &format!("-{right}")]);
        until_refused(&locker, "a", "no_permission").await;
        ask_two(&net, &["ACL", "SETUSER", "app", &format!("+{right}")]);
        until_granted(&locker, "a").await;
    }
    // A release that may not look does not say that nothing was there.
    ask_two(&net, &["ACL", "SETUSER", "app", "-get"]);
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    assert!(guard.extend().await.is_err());
    assert!(matches!(guard.release().await, ReleaseOutcome::Unconfirmed { .. }));
    ask_two(&net, &["ACL", "SETUSER", "app", "+get"]);
    until_granted(&locker, "a").await;
    // Without the right to run scripts nothing can be released: better no vote than a lock for its whole ttl.
    ask_two(&net, &["ACL", "SETUSER", "app", "-@scripting"]);
    ask_two(&net, &["CLIENT", "KILL", "USER", "app"]);
    until_refused(&locker, "a", "no_permission").await;
    ask_two(&net, &["ACL", "SETUSER", "app", "+@scripting"]);
    until_granted(&locker, "a").await;
    net.until_free("a").await;
}

#[tokio::test]
async fn servers_that_load_their_data_are_named() {
    let slow = Server::builder()
        .aof(quorlock_testkit::Fsync::No)
        .line("rdbcompression no")
        .line("key-load-delay 1000")
        .line("loading-process-events-interval-bytes 1024");
    let net = Net::start_like(&slow, 0).await;
    for server in &net.servers[..2] {
        server.cli(&[
            "EVAL",
            "for i = 1, 3000 do redis.call('SET', 'key' .. i, string.rep('x', 1000)) end",
            "0",
        ]);
        // A rewritten log is loaded key by key, and the server looks up after each.
        server.cli(&["BGREWRITEAOF"]);
        until("the log is rewritten", SOON, async || {
            let info = server.cli(&["INFO", "persistence"]);
            info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
        })
        .await;
    }
    let locker = net.locker().await;
    let Net { mut servers, .. } = net;
    let loading = tokio::task::spawn_blocking(move || {
        std::thread::scope(|scope| {
            for server in &mut servers[..2] {
                scope.spawn(|| server.restart());
            }
        });
        servers
    });
    // They load at the same time, but need not be asked at the same time.
    until("one is loading", SOON, async || match locker.named("a").unwrap().try_acquire().await {
        Err(refused @ AcquireError::NoQuorum { .. }) => kinds(&refused).contains(&"loading"),
        _ => false,
    })
    .await;
    let _servers = loading.await.unwrap();
    until("they are quarantined", SOON, async || {
        let refused = locker.named("a").unwrap().try_acquire().await;
        refused.is_err_and(|refused| kinds(&refused) == ["quarantined", "quarantined"])
    })
    .await;
}

#[tokio::test]
async fn servers_that_begin_to_evict_are_named_soon() {
    let net = Net::start(0).await;
    let locker = net.locker().await;
    ask_two(&net, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    until_refused(&locker, "a", "evicts").await;
    ask_two(&net, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    until_granted(&locker, "a").await;
}
