//! Other Redlock clients on the same servers and names exclude us and are excluded by us.
#![allow(clippy::unwrap_used)]

use quorlock::{AcquireError, Guard, Holder, Locker, ReleaseOutcome};
use quorlock_testkit::{Peer, Servers};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(20);

/// One other client and a locker on the same three servers.
struct World {
    client: &'static str,
    servers: Servers,
    peer: Peer,
    locker: Locker,
}

impl World {
    /// `None` if the other client is not installed here.
    async fn start(client: &'static str, start: impl Fn(&[String]) -> Option<Peer>) -> Option<Self> {
        let servers = Servers::start(3);
        let urls = servers.urls();
        let Some(peer) = start(&urls) else {
            eprintln!("skipped: {client} is not installed here");
            return None;
        };
        let locker = Locker::builder().nodes(urls).node_timeout(Duration::from_millis(300)).build().unwrap();
        quorlock_testkit::init_nodes(&locker).await;
        Some(Self { client, servers, peer, locker })
    }

    /// Releases on every server: a release returns when a majority has answered.
    async fn release(&self, guard: Guard) {
        assert!(matches!(guard.release().await, ReleaseOutcome::Released));
        self.locker.flush().await;
    }

    /// The other client takes a name that must be free.
    fn take(&mut self, name: &str) -> String {
        let value = self.peer.lock(name, TTL);
        value.unwrap_or_else(|| panic!("{} cannot have what we released", self.client))
    }

    fn assert_refused(&mut self, name: &str) {
        assert_eq!(self.peer.lock(name, TTL), None, "{} took a lock that we hold", self.client);
    }
}

async fn writers_exclude_each_other(world: &mut World) {
    let client = world.client;
    let lock = world.locker.named("shared").unwrap();
    let guard = lock.acquire().await.unwrap();
    world.assert_refused("shared");
    assert!(guard.extend().await.is_ok(), "{client} left our lock alone");
    world.release(guard).await;

    let value = world.take("shared");
    let refused = lock.try_acquire().await.unwrap_err();
    assert!(matches!(refused, AcquireError::Held { holder: Holder::Foreign(_), .. }), "{client}: {refused}");
    for server in world.servers.iter() {
        assert_eq!(server.cli(&["GET", "shared"]), value, "we changed a lock of {client}");
    }
    assert!(world.peer.unlock("shared", &value), "{client} cannot release its own lock");

    let guard = lock.acquire().await.unwrap();
    assert!(!world.peer.unlock("shared", &value) || guard.extend().await.is_ok());
    assert!(guard.extend().await.is_ok(), "{client} released a lock that was not its own");
    world.release(guard).await;
}

/// Goal: any of our readers keeps the other client out, and its lock keeps our readers out.
async fn readers_and_the_other_client_exclude_each_other(world: &mut World) {
    let client = world.client;
    let lock = world.locker.named("read").unwrap().shared();
    let (first, second) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
    world.assert_refused("read");
    world.release(first).await;
    world.assert_refused("read");
    assert!(!world.peer.unlock("read", "not-its-own"), "{client} released a reader");
    assert!(second.extend().await.is_ok(), "{client} left our reader alone");
    let third = lock.try_acquire().await.unwrap();
    world.release(second).await;
    world.release(third).await;

    let value = world.take("read");
    let refused = lock.try_acquire().await.unwrap_err();
    assert!(matches!(refused, AcquireError::Held { holder: Holder::Foreign(_), .. }), "{client}: {refused}");
    for server in world.servers.iter() {
        assert_eq!(server.cli(&["GET", "read"]), value, "a reader changed a lock of {client}");
    }
    assert!(world.peer.unlock("read", &value), "{client} cannot release its own lock");
    let guard = lock.acquire().await.unwrap();
    world.release(guard).await;
}

/// Goal: a change of the mode leaves no gap for the other client.
async fn changed_modes_and_the_other_client_exclude_each_other(world: &mut World) {
    let guard = world.locker.named("changed").unwrap().acquire().await.unwrap();
    guard.downgrade();
    world.assert_refused("changed");
    guard.try_upgrade().await.unwrap();
    world.assert_refused("changed");
    assert!(guard.extend().await.is_ok());
    world.release(guard).await;
    let value = world.take("changed");
    assert!(world.peer.unlock("changed", &value));
}

/// Goal: a set keeps the other client from each of its names, and one name of the other client keeps us from
/// all.
async fn sets_and_the_other_client_exclude_each_other(world: &mut World) {
    let client = world.client;
    for set in
        [world.locker.all(["left", "right"]).unwrap(), world.locker.all(["left", "right"]).unwrap().shared()]
    {
        let guard = set.acquire().await.unwrap();
        world.assert_refused("left");
        world.assert_refused("right");
        assert!(guard.extend().await.is_ok(), "{client} left our set alone");
        world.release(guard).await;

        let value = world.take("right");
        let refused = set.try_acquire().await.unwrap_err();
        let AcquireError::NamesHeld { held, .. } = &refused else { panic!("{client}: {refused}") };
        assert_eq!(held.iter().map(|held| held.name.as_str()).collect::<Vec<_>>(), ["right"], "{client}");
        world.locker.flush().await;
        let left = world.take("left");
        assert!(world.peer.unlock("left", &left), "we kept a part of a set");
        assert!(world.peer.unlock("right", &value), "{client} cannot release its own lock");
    }
}

async fn exclude_each_other(client: &'static str, start: impl Fn(&[String]) -> Option<Peer>) {
    let Some(mut world) = World::start(client, start).await else { return };
    writers_exclude_each_other(&mut world).await;
    readers_and_the_other_client_exclude_each_other(&mut world).await;
    changed_modes_and_the_other_client_exclude_each_other(&mut world).await;
    sets_and_the_other_client_exclude_each_other(&mut world).await;
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
