//! Other Redlock clients on the same servers and names exclude us and are excluded by us.
#![allow(clippy::unwrap_used)]

use quorlock::{AcquireError, Holder, Locker, ReleaseOutcome};
use quorlock_testkit::{Peer, Servers};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(20);

async fn exclude_each_other(client: &str, start: impl Fn(&[String]) -> Option<Peer>) {
    let servers = Servers::start(3);
    let urls = servers.urls();
    let Some(mut peer) = start(&urls) else {
        return eprintln!("skipped: {client} is not installed here");
    };
    let locker = Locker::builder().nodes(urls).node_timeout(Duration::from_millis(300)).build().unwrap();
    quorlock_testkit::init_nodes(&locker).await;
    let lock = locker.named("shared").unwrap();

    let guard = lock.acquire().await.unwrap();
    assert_eq!(peer.lock("shared", TTL), None, "{client} took a lock that we hold");
    assert!(guard.extend().await.is_ok(), "{client} left our lock alone");
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    // A majority has let it go; the last server shall have, too.
    locker.flush().await;

    let value = peer.lock("shared", TTL).unwrap_or_else(|| panic!("{client} cannot have what we released"));
    let refused = lock.try_acquire().await.unwrap_err();
    assert!(matches!(refused, AcquireError::Held { holder: Holder::Foreign(_), .. }), "{client}: {refused}");
    for server in servers.iter() {
        assert_eq!(server.cli(&["GET", "shared"]), value, "we changed a lock of {client}");
    }
    assert!(peer.unlock("shared", &value), "{client} cannot release its own lock");

    let guard = lock.acquire().await.unwrap();
    assert!(!peer.unlock("shared", &value) || guard.extend().await.is_ok());
    assert!(guard.extend().await.is_ok(), "{client} released a lock that was not its own");
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redlock_py_and_we_exclude_each_other() {
    exclude_each_other("redlock-py", Peer::python).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_redlock_and_we_exclude_each_other() {
    exclude_each_other("node-redlock", Peer::node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redsync_and_we_exclude_each_other() {
    exclude_each_other("redsync", Peer::redsync).await;
}
