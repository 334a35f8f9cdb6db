//! Real servers that die, forget, stop and come back, with the result that DESIGN.md promises.
#![allow(clippy::unwrap_used)]

use quorlock::node::{Content, NodeError};
use quorlock::{AcquireError, Builder, Event, Guard, Holder, Locker, Release, Said};
use quorlock_testkit::{Fsync, Server, Servers, until};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn builder(servers: &Servers) -> Builder {
    Locker::builder().nodes(servers.urls()).node_timeout(Duration::from_millis(200))
}

async fn fresh(servers: &Servers) -> Locker {
    let locker = builder(servers).build().unwrap();
    init(&locker).await;
    locker
}

async fn init(locker: &Locker) {
    for (node, result) in locker.init_fresh_nodes().await {
        result.unwrap_or_else(|error| panic!("{node}: {error}"));
    }
}

/// On how many nodes the lock of `guard` is stored.
async fn copies(locker: &Locker, guard: &Guard) -> usize {
    let lock = locker.named(guard.name()).unwrap();
    let Ok(seen) = lock.inspect().await else { return 0 };
    let ours = |content: &Content| matches!(content, Content::Lock(stored) if stored.token == guard.token());
    seen.nodes.iter().filter(|node| node.view.as_ref().is_ok_and(|view| ours(&view.content))).count()
}

fn causes(error: AcquireError) -> Vec<NodeError> {
    let AcquireError::NoQuorum { nodes, .. } = error else { panic!("{error}") };
    let cause = |said| if let Said::Failed(cause) = said { Some(cause) } else { None };
    nodes.into_iter().filter_map(|report| cause(report.said)).collect()
}

#[tokio::test]
async fn with_two_of_five_servers_killed_locks_go_on() {
    let mut servers = Servers::start(5);
    let (one, other) = (fresh(&servers).await, builder(&servers).build().unwrap());
    let held = one.named("held").unwrap().acquire().await.unwrap();
    servers[0].kill();
    servers[3].kill();

    let guard = one.named("new").unwrap().acquire().await.unwrap();
    assert!(matches!(other.named("new").unwrap().try_acquire().await, Err(AcquireError::Held { .. })));
    assert!(held.extend().await.is_ok(), "a lock that was held before goes on, too");
    // Dead servers refuse at once: an acquire is not slower than its round trip.
    let start = Instant::now();
    for number in 0..20 {
        let guard = one.named(format!("quick-{number}")).unwrap().acquire().await.unwrap();
        assert!(matches!(guard.release().await, Release::Released));
    }
    assert!(
        start.elapsed() < secs(4),
        "20 cycles took {:?}, as if each waited for the dead",
        start.elapsed()
    );
    assert!(matches!(guard.release().await, Release::Released));
    assert!(matches!(held.release().await, Release::Released));
}

#[tokio::test]
async fn with_three_of_five_servers_killed_nobody_gets_a_lock_and_each_cause_is_named() {
    let mut servers = Servers::start(5);
    let locker = fresh(&servers).await;
    for number in 0..3 {
        servers[number].kill();
    }
    let refused = locker.named("a").unwrap().wait(secs(1)).acquire().await.unwrap_err();
    let causes = causes(refused);
    assert_eq!(causes.len(), 3, "{causes:?}");
    for cause in causes {
        assert!(matches!(cause, NodeError::Unreachable { .. } | NodeError::Disconnected { .. }), "{cause:?}");
    }
}

#[tokio::test]
async fn servers_that_nobody_initialised_wait_and_say_how_long() {
    let servers = Servers::start(3);
    let locker = builder(&servers).build().unwrap();
    let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
    assert!(refused.to_string().contains("initialise"), "{refused}");
    for cause in causes(refused) {
        assert!(
            matches!(cause, NodeError::Quarantined { left } if left > secs(35) && left <= secs(40)),
            "{cause:?}"
        );
    }
    init(&locker).await;
    drop(locker.named("a").unwrap().try_acquire().await.unwrap());
}

#[tokio::test]
async fn the_quarantine_ends_by_itself() {
    let servers = Servers::start(3);
    let short = || builder(&servers).ttl(secs(1)).longest_ttl(secs(1));
    let start = Instant::now();
    let guard = short().wait(secs(30)).build().unwrap().named("a").unwrap().acquire().await.unwrap();
    assert!(start.elapsed() >= secs(11), "longest ttl and twice the clock tolerance: {:?}", start.elapsed());
    drop(guard);
}

/// Goal: S4. Not even all servers together remember the last fence, and the next one is still above it.
#[tokio::test]
async fn fences_grow_although_all_servers_forgot() {
    let mut servers = Servers::start(3);
    let locker = builder(&servers).ttl(secs(1)).longest_ttl(secs(1)).wait(secs(30)).build().unwrap();
    init(&locker).await;
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let before = guard.fence();
    assert!(matches!(guard.release().await, Release::Released));
    for number in 0..3 {
        servers[number].restart();
        assert_eq!(servers[number].cli(&["EXISTS", "quorlock:fence:a"]), "0", "it forgot");
    }
    let after = locker.named("a").unwrap().acquire().await.unwrap();
    assert!(after.fence() > before, "{} after {before}", after.fence());
}

#[tokio::test]
async fn servers_that_restart_without_memory_do_not_vote_and_the_holder_refills_them() {
    let mut servers = Servers::start(3);
    let (holder, rival) = (fresh(&servers).await, builder(&servers).build().unwrap());
    let guard = holder.named("a").unwrap().acquire().await.unwrap();
    // One after another, as a majority that forgets at the same moment is beyond every promise.
    for number in 0..2 {
        servers[number].restart();
        let refused = rival.named("a").unwrap().try_acquire().await;
        assert!(refused.is_err(), "two hold the lock: {refused:?}");
        until("the lock is refilled", SOON, async || copies(&holder, &guard).await == 3).await;
    }
    assert!(guard.is_held());
    let quarantined = |cause: &NodeError| matches!(cause, NodeError::Quarantined { .. });
    until("the rival knows that two are quarantined", SOON, async || {
        let refused = rival.named("b").unwrap().try_acquire().await.unwrap_err();
        causes(refused).iter().filter(|cause| quarantined(cause)).count() == 2
    })
    .await;
}

#[tokio::test]
async fn a_lock_survives_a_rolling_restart_of_all_five_servers() {
    let mut servers = Servers::start(5);
    let (holder, rival) = (fresh(&servers).await, builder(&servers).build().unwrap());
    let guard = holder.named("a").unwrap().acquire().await.unwrap();
    for number in 0..5 {
        servers[number].restart();
        until("the lock is refilled", SOON, async || copies(&holder, &guard).await == 5).await;
        assert!(rival.named("a").unwrap().try_acquire().await.is_err());
    }
    assert!(guard.is_held());
    assert!(guard.extend().await.is_ok());
    assert!(matches!(guard.release().await, Release::Released));
}

#[tokio::test]
async fn a_flushed_server_is_caught_by_the_vote_and_does_not_count() {
    let servers = Servers::start(3);
    let (holder, rival) = (fresh(&servers).await, builder(&servers).build().unwrap());
    rival.connect().await;
    let guard = holder.named("a").unwrap().watchdog(false).acquire().await.unwrap();
    // Two of three servers forget the lock while all connections stay up.
    servers[0].flushall();
    servers[1].flushall();
    for _ in 0..20 {
        let refused = rival.named("a").unwrap().try_acquire().await;
        assert!(refused.is_err(), "two hold the lock: {refused:?}");
    }
    assert_eq!(servers[0].cli(&["EXISTS", "a"]), "0", "the refused votes were undone");
    drop(guard);
}

#[tokio::test]
async fn a_durable_server_votes_right_after_its_restart() {
    let mut servers = Servers::start_like(&Server::builder().aof(Fsync::Always), 3);
    let durable = || builder(&servers).durable(true).build().unwrap();
    let locker = durable();
    init(&locker).await;
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let rival = durable();
    for number in 0..3 {
        servers[number].restart();
    }
    let refused = rival.named("a").unwrap().try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::Held { .. })), "nothing was forgotten: {refused:?}");
    until("all vote", SOON, async || rival.named("b").unwrap().try_acquire().await.is_ok()).await;
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_server_that_is_not_durable_cannot_be_marked_so() {
    let servers = Servers::start(1);
    let locker = builder(&servers).durable(true).build().unwrap();
    let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
    assert!(matches!(causes(refused)[..], [NodeError::NotDurable { .. }]));
}

#[tokio::test]
async fn a_stopped_server_that_wakes_up_keeps_nothing_of_a_failed_attempt() {
    let servers = Servers::start(3);
    let locker = fresh(&servers).await;
    servers[0].pause();
    servers[1].pause();
    let refused = locker.named("a").unwrap().try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::NoQuorum { .. })), "{refused:?}");
    servers[0].resume();
    servers[1].resume();
    // They now execute the SET that was sent to them, and the undo behind it.
    for server in servers.iter() {
        until("nothing is left", SOON, async || server.cli(&["EXISTS", "a"]) == "0").await;
    }
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    assert!(matches!(guard.release().await, Release::Released));
}

#[tokio::test]
async fn one_stopped_server_delays_nobody() {
    let servers = Servers::start(3);
    let locker = fresh(&servers).await;
    servers[1].pause();
    let start = Instant::now();
    for number in 0..20 {
        let guard = locker.named(format!("n{number}")).unwrap().acquire().await.unwrap();
        assert!(matches!(guard.release().await, Release::Released));
    }
    assert!(start.elapsed() < secs(4), "20 cycles at 200 ms each would be 8 s: {:?}", start.elapsed());
    servers[1].resume();
}

#[tokio::test]
async fn a_release_reaches_a_server_that_was_away() {
    let mut servers = Servers::start_like(&Server::builder().aof(Fsync::Always), 3);
    let locker = fresh(&servers).await;
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    until("all have it", SOON, async || copies(&locker, &guard).await == 3).await;
    servers[2].kill();
    assert!(matches!(guard.release().await, Release::Released));
    servers[2].restart(); // with its memory: it still has the lock
    until("the release came after", secs(5), async || servers[2].cli(&["EXISTS", "a"]) == "0").await;
}

#[tokio::test]
async fn foreign_values_and_types_are_held_by_someone_else_and_never_deleted() {
    let servers = Servers::start(3);
    let locker = fresh(&servers).await;
    for server in servers.iter() {
        server.cli(&["SET", "text", "somebody else's"]);
        server.cli(&["RPUSH", "list", "x"]);
        server.cli(&["SET", "short", "t", "PX", "600000"]);
    }
    for name in ["text", "list", "short"] {
        let refused = locker.named(name).unwrap().try_acquire().await.unwrap_err();
        assert!(
            matches!(refused, AcquireError::Held { holder: Holder::Foreign(_), .. }),
            "{name}: {refused}"
        );
        assert!(matches!(
            locker.named(name).unwrap().force_release("0".repeat(32).parse().unwrap()).await,
            Release::AlreadyGone
        ));
        for server in servers.iter() {
            assert_eq!(server.cli(&["EXISTS", name]), "1", "{name} was deleted");
        }
    }
}

#[tokio::test]
async fn one_server_under_two_addresses_votes_once() {
    let server = Server::start();
    let urls = [server.url(), format!("redis://localhost:{}", server.port()), server.unix_url()];
    let locker = Locker::builder().nodes(urls).build().unwrap();
    locker.init_fresh_nodes().await;
    let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
    let same = |cause: &NodeError| matches!(cause, NodeError::SameServer { .. });
    assert_eq!(causes(refused).iter().filter(|cause| same(cause)).count(), 2);
}

#[tokio::test]
async fn servers_that_would_lose_locks_are_refused_with_what_to_do() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(primary.port()).start();
    let cluster = Server::builder().cluster().start();
    let evicting = Server::builder().maxmemory("100mb", "allkeys-lru").start();
    let urls = [replica.url(), cluster.url(), evicting.url()];
    let locker = Locker::builder().nodes(urls.clone()).build().unwrap();
    let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
    let text = refused.to_string();
    for words in ["it is a replica", "it is a cluster node", "set `maxmemory-policy noeviction`"] {
        assert!(text.contains(words), "{text}");
    }
    let allowed = Locker::builder().nodes([evicting.url()]).allow_eviction(true).build().unwrap();
    drop(allowed.named("a").unwrap().try_acquire().await.unwrap());
}

#[tokio::test]
async fn a_wrong_password_is_told_apart_from_a_dead_server() {
    let server = Server::builder().password("right").start();
    for url in [
        format!("redis://127.0.0.1:{}", server.port()),
        format!("redis://:wrong@127.0.0.1:{}", server.port()),
    ] {
        let locker = Locker::builder().nodes([url]).build().unwrap();
        let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
        assert!(!refused.to_string().contains("wrong@"), "{refused}");
        assert!(matches!(causes(refused)[..], [NodeError::NoAuth { .. }]));
    }
}

#[tokio::test]
async fn observers_hear_of_nodes_and_locks() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let mut servers = Servers::start(3);
    let events = heard.clone();
    let locker = builder(&servers)
        .observe(move |event: &Event| events.lock().unwrap().push(format!("{event:?}")))
        .build()
        .unwrap();
    init(&locker).await;
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    servers[0].kill();
    let heard_of = |word: &str| heard.lock().unwrap().iter().any(|event| event.starts_with(word));
    until("the node is down", SOON, async || heard_of("NodeDown")).await;
    assert!(matches!(guard.release().await, Release::Released));
    for word in ["NodeUp", "Acquired", "Released"] {
        assert!(heard_of(word), "{word}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_can_be_dropped_on_a_thread_without_a_runtime() {
    let servers = Servers::start(3);
    let locker = fresh(&servers).await;
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    for server in servers.iter() {
        until("it is released", SOON, async || server.cli(&["EXISTS", "a"]) == "0").await;
    }
}

/// Goal: `fn main` may end right after the guard. The runtime is shut down before its tasks have had a turn.
#[test]
fn a_guard_dropped_just_before_its_runtime_ends_still_releases() {
    let servers = Servers::start(3);
    for round in 0..20 {
        let mut kind = match round % 2 {
            0 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = kind.enable_all().build().unwrap();
        runtime.block_on(async {
            let locker = fresh(&servers).await;
            drop(locker.named(format!("n{round}")).unwrap().acquire().await.unwrap());
        });
        drop(runtime);
    }
    quorlock_testkit::until_blocking("all are released", secs(2), || {
        servers.iter().all(|server| (0..20).all(|round| server.cli(&["EXISTS", &format!("n{round}")]) == "0"))
    });
}

#[test]
fn a_locker_can_be_used_from_one_runtime_after_another() {
    let servers = Servers::start(3);
    let locker = builder(&servers).build().unwrap();
    for round in 0..5 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            if round == 0 {
                init(&locker).await;
            }
            let guard = locker.named("a").unwrap().acquire().await.unwrap();
            assert!(matches!(guard.release().await, Release::Released));
        });
    }
}
