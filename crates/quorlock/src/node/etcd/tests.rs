//! The etcd node on real clusters.

mod shared_holds;

use super::*;
use crate::context::mutex::Mutex;
use crate::node::contract::{
    HandClock, Losers, TTL, Unraised, acquire, ask, contract_without_time, extend, inspect, name, release,
    stamp, token,
};
use crate::node::engine::MAX_WAITING;
use crate::node::engine::batch::Urgency;
use crate::node::etcd::client::errors::CallError;
use crate::node::etcd::client::txn;
use crate::node::etcd::fence_leases::FenceLeases;
use crate::node::url::Place;
use crate::node::{Command, Denied, Done, Node, NodeUrl, Reply, Wakeup, open};
use quorlock_core::Mode;
use quorlock_testkit::{Etcd, until};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How long a loaded machine may take for something that takes a moment.
const SOON: Duration = Duration::from_secs(60);

fn node(url: &str) -> Arc<dyn Node> {
    node_within(url, Duration::from_secs(2))
}

/// A node with `node_timeout` to answer.
fn node_within(url: &str, node_timeout: Duration) -> Arc<dyn Node> {
    open(&url.parse().unwrap(), &Context { node_timeout, ..Context::default() }).unwrap()
}

pub(crate) fn store(url: &str) -> Store {
    let Place::Cluster(cluster) = url.parse::<NodeUrl>().unwrap().place else { panic!("{url}") };
    let limit = Duration::from_secs(20);
    let limits = Limits { caller: limit, request: limit, longest_ttl: Duration::from_secs(30) };
    Store::new(&cluster, &Context { connect_timeout: limit, ..Context::default() }, limits).unwrap()
}

/// The exclusive hold of a client on `a`.
fn held(store: &Store, holder: u8) -> Vec<u8> {
    store.keys(&name("a")).hold(Mode::Exclusive, &token(holder))
}

async fn stored(store: &Store, key: &[u8]) -> Option<client::messages::Entry> {
    store.api.read(key).await.unwrap()
}

#[tokio::test]
async fn the_etcd_node_keeps_the_contract() {
    let etcd = Etcd::start(1);
    // It sends many commands at once, none of which may be given up.
    contract_without_time(&node_within(&etcd.url(), SOON), Losers::LeaveIt, Unraised::WithCounter).await;
}

#[tokio::test]
async fn extending_never_shortens() {
    let etcd = Etcd::start(1);
    let ttl = 30 * TTL;
    // One client knows when the lease ends, the other one asks the cluster.
    for (text, with_another) in [("a", false), ("b", true)] {
        let node = node(&etcd.url());
        ask(&node, &acquire(text, 1, 5, ttl, false)).await;
        let node = if with_another { self::node(&etcd.url()) } else { node };
        assert_eq!(ask(&node, &extend(text, 1, ttl / 2, false)).await, "done");
        assert_eq!(inspect(&node, text).await, "ann1@web fence 5 left 300 counter 5");
        assert_eq!(ask(&node, &extend(text, 1, 4 * ttl, false)).await, "done");
        assert_eq!(inspect(&node, text).await, "ann1@web fence 5 left 1200 counter 5");
        assert_eq!(ask(&node, &release(text, 1)).await, "done");
        assert_eq!(inspect(&node, text).await, "free, counter 5");
    }
}

/// Goal: what locks cost is not a lease each.
#[tokio::test]
async fn locks_share_leases_and_a_lease_outlasts_every_lock_that_has_it() {
    let (etcd, clock) = (Etcd::start(1), Arc::new(HandClock::default()));
    let store = Store { clock: clock.clone(), ..store(&etcd.url()) };
    let lease = async |holder: u8, ttl: Duration| {
        let number = u64::from(holder);
        store.execute(&acquire("a", holder, number, ttl, false)).await.unwrap();
        let lease = stored(&store, &held(&store, holder)).await.unwrap().lease;
        store.execute(&release("a", holder)).await.unwrap();
        lease
    };
    let first = lease(1, TTL).await;
    clock.advance(Duration::from_millis(1_500));
    assert_eq!(lease(2, TTL).await, first, "two seconds longer than the ttl, less a quarter of that");
    assert_ne!(lease(3, 2 * TTL).await, first, "another ttl");
    clock.advance(Duration::from_millis(1));
    let second = lease(4, TTL).await;
    assert_ne!(second, first, "it would not last for the ttl and the margin");
    assert_eq!(lease(5, TTL).await, second);
    // One for all counters.
    assert_eq!(etcd.count_leases(), 4);
}

/// Goal: S8. The answer to an acquire was lost, and it comes to the cluster after its release.
#[tokio::test]
async fn an_acquire_that_arrives_after_it_was_undone_is_refused() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    let late = acquire("a", 1, 5, TTL, false);
    let reply = store.undo(&release("a", 1)).await.unwrap();
    assert!(matches!(reply, Reply::Denied(Denied::Gone)), "{reply:?}");
    let reply = store.execute(&late).await.unwrap();
    assert!(matches!(reply, Reply::Denied(Denied::Taken)), "{reply:?}");
    assert_eq!(stored(&store, &held(&store, 1)).await, None);
    // Other attempts are not concerned.
    let reply = store.execute(&acquire("a", 2, 5, TTL, false)).await.unwrap();
    assert!(matches!(reply, Reply::Done(Done::Raised)), "{reply:?}");
    let reply = store.undo(&release("a", 2)).await.unwrap();
    assert!(matches!(reply, Reply::Done(Done::Plain)), "it had taken effect: {reply:?}");
    // The mark outlasts every lease that the acquire may have.
    let mark = stored(&store, &store.keys(&name("a")).undone(&token(1))).await.unwrap();
    assert!(store.api.left(mark.lease).await.unwrap() >= 2 * store.limits.longest_ttl);
}

/// Goal: S8 with a real network: the cluster executes the acquire, and its answer is lost.
#[tokio::test]
async fn an_acquire_whose_answer_was_lost_is_undone_by_its_release() {
    let etcd = Etcd::start(1);
    let proxy = Proxy::to(&etcd);
    let node = node_within(&format!("etcd://{}", proxy.listen().await), Duration::from_millis(300));
    // All leases are there.
    assert_eq!(ask(&node, &acquire("a", 9, 4, TTL, false)).await, "raised");
    assert_eq!(ask(&node, &release("a", 9)).await, "done");
    proxy.swallows.store(true, Ordering::Relaxed);
    let failed = ask(&node, &acquire("a", 1, 5, TTL, false)).await;
    assert!(failed.starts_with("failed"), "{failed}");
    until("it was executed", SOON, async || etcd.count_keys("quorlock/lock/a") == 1).await;
    let failed = ask(&node, &release("a", 1)).await;
    assert!(failed.starts_with("failed"), "{failed}");
    proxy.swallows.store(false, Ordering::Relaxed);
    until("it is undone", SOON, async || etcd.count_keys("quorlock/lock/a") == 0).await;
    until("for good", SOON, async || etcd.count_keys("quorlock/undone/a") == 1).await;
}

/// Goal: many changes at once are few transactions, and each of them gets its own answer.
#[tokio::test]
async fn changes_of_many_names_go_together_and_are_answered_apart() {
    let etcd = Etcd::start(1);
    let store = Arc::new(store(&etcd.url()));
    store.execute(&acquire("n7", 2, 4, TTL, false)).await.unwrap();
    let before = store.api.cluster.revision();
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..300_u32 {
        let store = store.clone();
        clients.spawn(async move {
            let reply = store.execute(&acquire(&format!("n{number}"), 1, 5, TTL, false)).await.unwrap();
            (number, matches!(reply, Reply::Done(Done::Raised)))
        });
    }
    for (number, is_raised) in clients.join_all().await {
        assert_eq!(is_raised, number != 7, "{number}");
    }
    let used = store.api.cluster.revision() - before;
    assert!(used < 30, "{used} transactions for 300 locks");
}

/// Goal: a part that the cluster refuses does not take the others along.
#[tokio::test]
async fn a_refused_part_of_a_transaction_does_not_concern_the_others() {
    let etcd = Etcd::start(1);
    let api = store(&etcd.url()).api;
    let put = |key: &str, lease| txn::Txn::default().then(txn::put(key.as_bytes(), b"", lease));
    let (good, bad, other) = tokio::join!(
        api.commit(put("good", 0), Urgency::WhileAwaited),
        api.commit(put("bad", 77), Urgency::WhileAwaited),
        api.commit(put("other", 0), Urgency::InAnyCase),
    );
    assert!(good.unwrap().succeeded && other.unwrap().succeeded);
    assert!(bad.unwrap_err().is_lost_lease());
    assert_eq!(api.keys(b"bad", 9).await.unwrap(), (Vec::new(), true));
}

#[tokio::test]
async fn counters_are_kept_for_weeks_by_one_lease_for_all_and_a_lost_lease_is_replaced() {
    let etcd = Etcd::start(1);
    let (one, other) = (store(&etcd.url()), store(&etcd.url()));
    for (store, name, by) in [(&one, "a", 1), (&other, "a", 2), (&one, "a", 3)] {
        let reply = store.execute(&acquire(name, by, 5 + u64::from(by), 30 * TTL, false)).await.unwrap();
        store.execute(&release(name, by)).await.unwrap();
        assert!(matches!(reply, Reply::Done(Done::Raised)), "{reply:?}");
    }
    let shared = stored(&one, b"quorlock/fence/a").await.unwrap().lease;
    let left = one.api.left(shared).await.unwrap();
    assert!(left > Duration::from_secs(27 * 86_400), "{left:?}");

    assert!(one.api.revoke(shared).await.unwrap());
    let failure = one.execute(&acquire("a", 4, 50, TTL, false)).await.unwrap_err();
    assert!(matches!(failure, Failure::Unsent(_)), "it knew of the lease before: {failure:?}");
    let reply = one.execute(&acquire("a", 5, 51, TTL, false)).await.unwrap();
    assert!(matches!(reply, Reply::Done(Done::Raised)), "{reply:?}");
    // The same for the lease of the lock.
    one.execute(&release("a", 5)).await.unwrap();
    let reply = one.execute(&acquire("a", 6, 52, TTL, false)).await.unwrap();
    assert!(matches!(reply, Reply::Done(Done::Raised)), "{reply:?}");
    assert!(one.api.revoke(stored(&one, &held(&one, 6)).await.unwrap().lease).await.unwrap());
    let failure = one.execute(&acquire("a", 7, 53, TTL, false)).await.unwrap_err();
    assert!(matches!(failure, Failure::Unsent(_)), "{failure:?}");
    let reply = one.execute(&acquire("a", 8, 54, TTL, false)).await.unwrap();
    assert!(matches!(reply, Reply::Done(Done::Raised)), "{reply:?}");
}

#[tokio::test]
async fn names_of_two_prefixes_are_apart_and_listed_apart() {
    let etcd = Etcd::start(1);
    let (one, other) = (node(&etcd.url()), node(&format!("{}/team", etcd.url())));
    assert_eq!(ask(&one, &acquire("a/b", 1, 5, TTL, false)).await, "raised");
    assert_eq!(ask(&other, &acquire("a/b", 2, 4, TTL, false)).await, "raised");
    assert_eq!(ask(&other, &acquire("c", 2, 4, TTL, false)).await, "raised");
    assert_eq!(one.names().await.unwrap(), Names::new([name("a/b")]));
    assert_eq!(other.names().await.unwrap(), Names::new([name("a/b"), name("c")]));
}

#[tokio::test]
async fn what_others_wrote_is_foreign_and_stays() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    etcd.put("quorlock/lock/a", "mine");
    assert_eq!(inspect(&node, "a").await, "foreign mine");
    assert_eq!(ask(&node, &acquire("a", 1, 5, TTL, false)).await, "taken");
    assert_eq!(ask(&node, &release("a", 1)).await, "taken");
    etcd.put("quorlock/fence/b", "zz");
    let failed = ask(&node, &acquire("b", 1, 5, TTL, false)).await;
    assert!(failed.contains("quorlock/fence/b"), "{failed}");
}

#[tokio::test]
async fn the_end_of_a_lease_notifies() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    let wakeup = Wakeup::new();
    // Long enough for the watch to begin before it is over.
    ask(&node, &acquire("a", 1, 5, Duration::from_secs(6), false)).await;
    node.watch(&name("a"), &wakeup);
    assert!(inspect(&node, "a").await.starts_with("ann1"), "the watch came first");
    tokio::time::timeout(SOON, wakeup.notified()).await.expect("the end of a lease notifies");
    node.unwatch(&name("a"));
}

/// Many callers give up while the cluster is stalled: it must not have to execute all their commands when
/// it is back.
#[tokio::test]
async fn a_command_whose_caller_gave_up_is_not_executed() {
    let etcd = Etcd::start(1);
    let node = node_within(&etcd.url(), Duration::from_millis(250));
    node.wait_connected().await;
    etcd.pause(0);
    let nodes = [node.clone()];
    let one = quorlock_core::NodeSet::first(1);
    for number in 0..200 {
        crate::quorum::round::send_without_reply(
            &nodes,
            one,
            acquire("a", number, 1000 + u64::from(number), TTL, false),
        );
    }
    until("all have failed", SOON, async || node.health().queued == 0).await;
    etcd.resume(0);
    // Except for those that were on their way when it stalled.
    until("it answers", SOON, async || inspect(&node, "a").await.contains("counter")).await;
    let seen = inspect(&node, "a").await;
    assert!(!seen.contains("counter 1199"), "{seen}");
}

#[tokio::test]
async fn a_release_that_failed_is_made_up_for_when_the_cluster_is_back() {
    let mut etcd = Etcd::start(1);
    let node = node(&etcd.url());
    assert_eq!(ask(&node, &acquire("a", 1, 5, 30 * TTL, false)).await, "raised");
    etcd.kill(0);
    let failed = ask(&node, &release("a", 1)).await;
    assert!(failed.starts_with("failed"), "{failed}");
    assert!(node.health().trouble.is_some());
    etcd.restart(0);
    until("it is free", SOON, async || inspect(&node, "a").await == "free, counter 5").await;
}

/// What one member reports about a lease cannot be relied on, so an extension is a newer lease.
#[tokio::test]
async fn an_extension_is_a_newer_lease_and_takes_the_counter_along() {
    let (etcd, clock) = (Etcd::start(1), Arc::new(HandClock::default()));
    let store = Store { clock: clock.clone(), ..store(&etcd.url()) };
    store.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
    let entry = async |key: &[u8]| stored(&store, key).await.unwrap();
    let (lock, counter) = (held(&store, 1), b"quorlock/fence/a");
    let weekly = entry(counter).await.lease;
    // As it was weeks ago.
    etcd.put("quorlock/fence/a", "0000000000000005");
    for ttl in [TTL / 2, TTL] {
        let before = entry(&lock).await.lease;
        clock.advance(TTL / 3);
        store.execute(&extend("a", 1, ttl, false)).await.unwrap();
        assert_ne!(entry(&lock).await.lease, before);
    }
    assert_eq!(entry(counter).await.lease, weekly);
    assert_eq!(entry(counter).await.value, b"0000000000000005");
}

#[tokio::test]
async fn a_client_that_is_refused_writes_nothing() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    ask(&node, &acquire("a", 1, 5, 30 * TTL, false)).await;
    // All that members must agree on, even what changes nothing in the end.
    let agreed = || etcd.post("/v3/maintenance/status", "{}")["raftIndex"].clone();
    // Members agree on things of their own in their first seconds, so there may be something else at first.
    until("nothing is written", SOON, async || {
        let before = agreed();
        for token in 2..12 {
            assert_eq!(ask(&node, &acquire("a", token, 6, TTL, false)).await, "taken");
            assert_eq!(ask(&node, &release("a", token)).await, "taken", "as it is undone");
        }
        agreed() == before
    })
    .await;
}

#[tokio::test]
async fn a_member_that_answers_nonsense_is_left_for_another() {
    let etcd = Etcd::start(1);
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = proxy.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = proxy.accept().await {
            let nonsense =
                b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
            let mut read = [0; 4096];
            let _ = stream.read(&mut read).await;
            let _ = stream.write_all(nonsense).await;
        }
    });
    let url = etcd.url().replace("etcd://", &format!("etcd://127.0.0.1:{port},"));
    // Without the check of all members, which passes it by at once.
    let api = store(&url).api;
    let first = NodeError::from(api.read(b"a").await.unwrap_err());
    assert_eq!(first.kind(), "disconnected", "{first}");
    assert_eq!(api.read(b"a").await.unwrap(), None);
    assert_eq!(ask(&node(&url), &acquire("a", 1, 5, TTL, false)).await, "raised");
}

#[tokio::test]
async fn a_watch_leaves_a_member_that_is_stalled() {
    let etcd = Etcd::start(3);
    // Its first member is the one that is watched; one that leads would cost an election.
    let still = (etcd.leader() + 1) % 3;
    let hosts = etcd.url().trim_start_matches("etcd://").split(',').map(str::to_owned).collect::<Vec<_>>();
    let url = format!("etcd://{},{}", hosts[still], hosts[(still + 1) % 3]);
    let node = node_within(&url, Duration::from_secs(1));
    let wakeup = Wakeup::new();
    assert_eq!(ask(&node, &acquire("a", 1, 5, 30 * TTL, false)).await, "raised");
    node.watch(&name("a"), &wakeup);
    inspect(&node, "a").await;
    etcd.pause(still);
    until("another member answers", SOON, async || inspect(&node, "a").await.starts_with("ann1")).await;
    // The notification of the watch that was begun again.
    tokio::time::timeout(SOON, wakeup.notified()).await.expect("it may have missed something");
    assert_eq!(ask(&node, &release("a", 1)).await, "done");
    tokio::time::timeout(SOON, wakeup.notified()).await.expect("a release notifies");
    etcd.resume(still);
}

#[tokio::test]
async fn a_watch_that_could_not_begin_is_begun_later() {
    let mut etcd = Etcd::start(1);
    let node = node(&etcd.url());
    let wakeup = Wakeup::new();
    ask(&node, &acquire("a", 1, 5, 30 * TTL, false)).await;
    etcd.kill(0);
    node.watch(&name("a"), &wakeup);
    let failed = inspect(&node, "a").await;
    assert!(failed.starts_with("failed"), "{failed}");
    etcd.restart(0);
    tokio::time::timeout(SOON, wakeup.notified()).await.expect("it may have missed something");
    assert_eq!(ask(&node, &release("a", 1)).await, "done");
    tokio::time::timeout(SOON, wakeup.notified()).await.expect("a release notifies");
}

/// Another process takes the lock away while its holder extends it.
#[tokio::test]
async fn an_extension_brings_nothing_back_that_was_released() {
    let etcd = Etcd::start(1);
    let (holder, other) = (store(&etcd.url()), store(&etcd.url()));
    for round in 0..60 {
        holder.execute(&acquire("a", round, 5 + u64::from(round), TTL, false)).await.unwrap();
        let (extension, taken) = (extend("a", round, TTL, false), release("a", round));
        let (_, released) = tokio::join!(holder.execute(&extension), async {
            tokio::time::sleep(Duration::from_micros(100 * u64::from(round))).await;
            other.execute(&taken).await.unwrap()
        });
        assert!(matches!(released, Reply::Done(_)), "{released:?}");
        assert_eq!(stored(&holder, &held(&holder, round)).await, None, "in round {round}");
    }
}

/// A counter that ends before the last lock of its name would let fences go back.
#[tokio::test]
async fn a_counter_gets_no_lease_that_ends_within_two_weeks() {
    let etcd = Etcd::start(1);
    let store = Store { clock: Arc::new(HandClock::default()), ..store(&etcd.url()) };
    let counter = b"quorlock/fence/a";
    let shared = fence_leases::weekly_lease_id(counter, store.clock.wall());
    for (days, is_used) in [(14, false), (16, true)] {
        store.api.grant(shared, fence_leases::DAY * days).await.unwrap();
        let found = FenceLeases::default()
            .lease(&store.api, counter, store.clock.as_ref(), store.entropy.as_ref())
            .await
            .unwrap();
        assert_eq!(found == shared, is_used, "{days} days are left");
        let left = store.api.left(found).await.unwrap();
        assert!(left > fence_leases::DAY * if is_used { 15 } else { 27 }, "{left:?}");
        assert!(store.api.revoke(shared).await.unwrap());
    }
}

/// A way to a cluster on which things happen at the worst moment.
#[derive(Default)]
struct Proxy {
    /// Where new connections go to.
    upstream: Mutex<String>,
    /// What is done right before the first request that writes a hold.
    meddle: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Whether no answer arrives.
    swallows: AtomicBool,
}

impl Proxy {
    fn to(etcd: &Etcd) -> Arc<Self> {
        let proxy = Self::default();
        proxy.lead_to(etcd);
        Arc::new(proxy)
    }

    fn lead_to(&self, etcd: &Etcd) {
        *self.upstream.lock() = etcd.url().trim_start_matches("etcd://").to_owned();
    }

    /// Its address.
    async fn listen(self: &Arc<Self>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let proxy = self.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let upstream = proxy.upstream.lock().clone();
                let server = TcpStream::connect(upstream).await.unwrap();
                tokio::spawn(proxy.clone().forward(client, server));
            }
        });
        address
    }

    async fn forward(self: Arc<Self>, mut client: TcpStream, mut server: TcpStream) {
        let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                Ok(length @ 1..) = client.read(&mut asked) => {
                    // Only a request that writes a hold names its owner.
                    let writes = asked[..length].windows(4).any(|bytes| bytes == b"@web");
                    if let Some(meddle) = self.meddle.lock().take_if(|_| writes) {
                        meddle();
                    }
                    server.write_all(&asked[..length]).await.unwrap();
                }
                Ok(length @ 1..) = server.read(&mut answered) => {
                    let swallows = self.swallows.load(Ordering::Relaxed);
                    if !swallows && client.write_all(&answered[..length]).await.is_err() {
                        return;
                    }
                }
                else => return,
            }
        }
    }
}

/// The address of a proxy to `etcd`, which calls `meddle` right before the first request that writes a
/// hold.
async fn meddled(etcd: &Etcd, meddle: impl FnOnce() + Send + 'static) -> String {
    let proxy = Proxy::to(etcd);
    *proxy.meddle.lock() = Some(Box::new(meddle));
    format!("etcd://{}", proxy.listen().await)
}

/// Goal: whatever comes between the read and the write of a command, it changes no lock of another
/// client.
#[tokio::test]
async fn a_lock_that_comes_between_look_and_change_stays() {
    let Command::Acquire(theirs) = acquire("a", 2, 7, TTL, false) else { unreachable!() };
    for command in [extend("a", 1, TTL, false), stamp("a", 1, 9)] {
        let etcd = Arc::new(Etcd::start(1));
        let direct = store(&etcd.url());
        direct.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
        let (url, there) = (etcd.url(), theirs.clone());
        // Another process takes the lock away, and a third one gets it.
        let meddle = move || {
            blocking(async move {
                let other = store(&url);
                other.execute(&release("a", 1)).await.unwrap();
                other.execute(&Command::Acquire(there)).await.unwrap();
            });
        };
        let store = store(&meddled(&etcd, meddle).await);
        let reply = store.execute(&command).await.unwrap();
        assert!(matches!(reply, Reply::Denied(Denied::Taken)), "{command:?}: {reply:?}");
        assert_eq!(stored(&direct, &held(&direct, 1)).await, None, "{command:?}");
        let left = stored(&direct, &held(&direct, 2)).await.expect("it is still there");
        assert_eq!(left.value, theirs.value().as_bytes(), "{command:?}");
    }
}

/// Runs `task` to its end on a thread of its own.
fn blocking(task: impl Future<Output = ()> + Send + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::spawn(move || runtime.block_on(task)).join().unwrap();
}

/// Goal: whatever comes between the read and the write of a command, no counter goes back.
#[tokio::test]
async fn a_counter_that_rises_between_look_and_change_is_not_set_back() {
    for (command, highest) in [(stamp("a", 1, 9), "91"), (extend("a", 1, TTL, false), "90")] {
        let etcd = Arc::new(Etcd::start(1));
        let direct = store(&etcd.url());
        direct.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
        // Without a lease, so that an extension gives it one.
        etcd.put("quorlock/fence/a", "0000000000000005");
        let there = etcd.clone();
        let url = meddled(&etcd, move || there.put("quorlock/fence/a", "0000000000000090")).await;
        let reply = store(&url).execute(&command).await.unwrap();
        assert!(matches!(reply, Reply::Done(_)), "{command:?}: {reply:?}");
        let counter = direct.api.read(b"quorlock/fence/a").await.unwrap().unwrap();
        assert_eq!(
            String::from_utf8(counter.value).unwrap(),
            format!("00000000000000{highest}"),
            "{command:?}"
        );
        assert_ne!(counter.lease, 0);
    }
}

/// Each acquire of an outage would need a release that has to be tried before the next acquire.
#[tokio::test]
async fn an_acquire_that_was_never_sent_leaves_no_failed_release() {
    let mut etcd = Etcd::start(1);
    let node = node(&etcd.url());
    assert_eq!(ask(&node, &acquire("a", 1, 5, 30 * TTL, false)).await, "raised");
    etcd.kill(0);
    let failed = ask(&node, &release("a", 1)).await;
    assert!(failed.starts_with("failed"), "{failed}");
    for (text, number) in [("a", 2), ("b", 3)] {
        let failed = ask(&node, &acquire(text, number, 6, TTL, false)).await;
        assert!(failed.starts_with("failed"), "{failed}");
        assert_eq!(ask(&node, &release(text, number)).await, "taken", "there is nothing to undo");
    }
}

/// Goal: no answer of another cluster counts, whatever was asked.
#[tokio::test]
async fn no_answer_of_another_cluster_counts() {
    let (mut one, mut other) = (Etcd::start(1), Etcd::start(1));
    let store = store(&format!("{},{}", one.url(), other.url().trim_start_matches("etcd://")));
    other.kill(0);
    store.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
    other.restart(0);
    one.kill(0);
    let (api, key) = (store.api.clone(), b"quorlock/lock/a");
    // The first may find out that its connection is gone.
    let _ = api.read(key).await;
    let kind = |error: CallError| NodeError::from(error).kind();
    assert_eq!(api.read(key).await.map_err(kind), Err("other_cluster"));
    assert_eq!(api.keys(key, 9).await.map_err(kind), Err("other_cluster"));
    let txn = txn::Txn::default().then(txn::read(key));
    assert_eq!(api.execute(txn).await.map(drop).map_err(kind), Err("other_cluster"));
    assert_eq!(api.grant(5, TTL).await.map_err(kind), Err("other_cluster"));
    assert_eq!(api.revoke(5).await.map_err(kind), Err("other_cluster"));
    assert_eq!(api.revoke(6).await.map_err(kind), Err("other_cluster"), "a lease that is not there");
    assert_eq!(api.left(5).await.map_err(kind), Err("other_cluster"));
    assert_eq!(api.status().await.map(drop).map_err(kind), Err("other_cluster"));
    assert_eq!(api.delete(key).await.map_err(kind), Err("other_cluster"));
    assert_eq!(api.member_count().await.map_err(kind), Err("other_cluster"));
    let kind = |error: NodeError| error.kind();
    let watch = watch::Watch::begin(&store, &name("a"), 0).await;
    assert_eq!(watch.map(drop).map_err(kind), Err("other_cluster"));
    let kind = |failure: Failure| failure.error().kind();
    for command in
        [acquire("b", 2, 5, TTL, false), extend("a", 1, TTL, false), stamp("a", 1, 9), release("a", 1)]
    {
        assert_eq!(
            store.execute(&command).await.map(drop).map_err(kind),
            Err("other_cluster"),
            "{command:?}"
        );
    }
    let inspect = Command::Inspect { name: name("a") };
    assert_eq!(store.execute(&inspect).await.map(drop).map_err(kind), Err("other_cluster"));
    assert_eq!(store.undo(&release("a", 1)).await.map(drop).map_err(kind), Err("other_cluster"));
    let kind = |error: NodeError| error.kind();
    assert_eq!(store.names().await.map(drop).map_err(kind), Err("other_cluster"));
    assert_eq!(store.examine().await.map(drop).map_err(kind), Err("other_cluster"));
}

/// Goal: a member of another cluster stops the node while it is there, and not for longer.
#[tokio::test]
async fn a_node_votes_again_when_its_members_are_of_one_cluster() {
    let (one, other) = (Etcd::start(1), Etcd::start(1));
    let proxy = Proxy::to(&other);
    let node = node_within(&format!("{},{}", one.url(), proxy.listen().await), SOON);
    let refused = ask(&node, &acquire("a", 1, 5, TTL, false)).await;
    assert!(refused.contains("another cluster"), "{refused}");
    proxy.lead_to(&one);
    assert_eq!(ask(&node, &acquire("a", 2, 5, TTL, false)).await, "raised");
}

/// Goal: a member that was away when the client began is asked, although no command needs it.
#[tokio::test]
async fn a_member_of_another_cluster_that_was_away_at_first_is_found() {
    let (one, mut other) = (Etcd::start(1), Etcd::start(1));
    let node = node(&format!("{},{}", one.url(), other.url().trim_start_matches("etcd://")));
    other.kill(0);
    assert_eq!(ask(&node, &acquire("a", 1, 5, 30 * TTL, false)).await, "raised");
    other.restart(0);
    until("it is found", SOON, async || inspect(&node, "a").await.contains("another cluster")).await;
}

#[tokio::test]
async fn a_lease_lasts_no_shorter_than_it_was_asked_for() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    for (millis, seconds) in [(4_001, "5"), (5_000, "5"), (5_999, "6")] {
        store.api.grant(millis, Duration::from_millis(millis.unsigned_abs())).await.unwrap();
        let lease = etcd.post("/v3/lease/timetolive", &format!(r#"{{"ID":"{millis}"}}"#));
        assert_eq!(lease["grantedTTL"], seconds, "{millis} ms");
    }
}

/// A lease that was read once may have ended weeks later.
#[tokio::test]
async fn the_lease_of_a_counter_is_read_again_after_a_day() {
    let (etcd, clock) = (Etcd::start(1), Arc::new(HandClock::default()));
    let store = Store { clock: clock.clone(), ..store(&etcd.url()) };
    let lease = async || {
        let (clock, entropy) = (store.clock.as_ref(), store.entropy.as_ref());
        store.counters.lease(&store.api, b"quorlock/fence/a", clock, entropy).await.unwrap()
    };
    let first = lease().await;
    assert!(store.api.revoke(first).await.unwrap());
    clock.advance(fence_leases::DAY);
    assert!(store.api.left(lease().await).await.unwrap() > fence_leases::DAY * 27);
}

#[tokio::test]
async fn clients_that_need_the_lease_of_a_week_at_one_moment_share_it() {
    let etcd = Etcd::start(1);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let store = store(&etcd.url());
        clients.spawn(async move {
            let (clock, entropy) = (store.clock.as_ref(), store.entropy.as_ref());
            store.counters.lease(&store.api, b"quorlock/fence/a", clock, entropy).await.unwrap()
        });
    }
    let found = clients.join_all().await;
    assert!(found.iter().all(|lease| *lease == found[0]), "{found:?}");
    assert_eq!(etcd.count_leases(), 1);
}

#[tokio::test]
async fn a_list_that_is_cut_off_says_so() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    let names: Vec<usize> = (0..=Names::MOST).collect();
    for some in names.chunks(100) {
        let txn = some.iter().fold(txn::Txn::default(), |txn, number| {
            txn.then(txn::put(format!("quorlock/lock/{number}").as_bytes(), b"", 0))
        });
        store.api.execute(txn).await.unwrap();
    }
    let names = store.names().await.unwrap();
    assert_eq!((names.known.len(), names.complete), (Names::MOST, false));
}

/// Goal: what is sent to a stalled cluster takes no more memory than it may, and leaves room for undoing
/// it.
#[tokio::test]
async fn a_full_queue_refuses_all_but_releases() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    node.wait_connected().await;
    etcd.pause(0);
    let (nodes, one) = ([node.clone()], quorlock_core::NodeSet::first(1));
    for _ in 0..MAX_WAITING {
        crate::quorum::round::send_without_reply(&nodes, one, acquire("a", 1, 5, TTL, false));
    }
    let refused = ask(&node, &acquire("a", 2, 6, TTL, false)).await;
    assert!(refused.contains("queue of 4096"), "{refused}");
    crate::quorum::round::send_without_reply(&nodes, one, release("a", 1));
    assert_eq!(node.health().queued, MAX_WAITING + 1);
    etcd.resume(0);
}

#[tokio::test]
async fn an_examination_writes_nothing() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    store.examine().await.unwrap();
    assert_eq!(store.api.keys(b"quorlock/", 9).await.unwrap(), (Vec::new(), true));
}
