//! Locks without fences, on every kind of node.
#![allow(clippy::unwrap_used)]

use quorlock::{AcquireError, Fence, Locker};
use quorlock_testkit::Servers;
use std::time::Duration;

/// Goal: without fences locks still exclude, are extended, repaired and released, and no counter is kept for them.
async fn check(urls: Vec<String>) {
    let build = || Locker::builder().nodes(urls.clone()).fences(false).build().unwrap();
    let (one, other) = (build(), build());
    quorlock_testkit::init_nodes(&one).await;
    for _ in 0..3 {
        let guard = one.named("a").unwrap().acquire().await.unwrap();
        assert_eq!(guard.fence(), Fence::NONE);
        let refused = other.named("a").unwrap().try_acquire().await.unwrap_err();
        assert!(matches!(refused, AcquireError::Held { .. }), "{refused}");
        assert!(guard.extend().await.unwrap() > Duration::from_secs(1));
        let seen = other.named("a").unwrap().inspect().await.unwrap();
        assert!(seen.is_held() && seen.fence.is_none(), "{seen:?}");
        assert_eq!(guard.release().await.kind(), "released");
    }
    let fenced = Locker::builder().nodes(urls).build().unwrap();
    let guard = fenced.named("a").unwrap().acquire().await.unwrap();
    assert!(guard.fence() > Fence::NONE, "others may want fences on the same names");
}

#[tokio::test]
async fn servers_keep_no_counter() {
    let servers = Servers::start(3);
    check(servers.urls()).await;
}

#[tokio::test]
async fn one_server_keeps_no_counter() {
    check(Servers::start(1).urls()).await;
}

#[tokio::test]
async fn a_directory_keeps_no_counter() {
    let dir = tempfile::tempdir().unwrap();
    check(vec![format!("file:{}", dir.path().display())]).await;
}

#[tokio::test]
async fn memory_keeps_no_counter() {
    check(vec!["memory:unfenced".to_owned()]).await;
}
