//! The etcd node on real clusters.

mod shared_holds;

use super::*;
use crate::context::mutex::Mutex;
use crate::node::contract::{
    HandClock, Losers, TTL, Unraised, acquire, ask, contract_without_time, extend, inspect, name, release,
    stamp, token,
};
use crate::node::contract_modes::upgrade;
use crate::node::etcd::client::json;
use crate::node::url::Place;
use crate::node::{Command, Denied, Done, Reply};
use crate::node::{NodeUrl, open};
use quorlock_testkit::{Etcd, until};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

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
    let member = |endpoint: &Endpoint| http::Endpoint {
        authority: endpoint.to_string(),
        address: Address::new(endpoint, &Context::default().connector).unwrap(),
    };
    let limit = Duration::from_secs(20);
    let http = Http::new(cluster.endpoints.iter().map(member).collect(), limit, limit);
    let entropy = Context::default().entropy;
    let clock = Context::default().clock;
    let api = Arc::new(Api::new(http, None));
    Store {
        api,
        entropy,
        clock,
        counters: FenceLeases::default(),
        prefix: cluster.prefix,
        refused: Arc::default(),
        ending: TaskTracker::new(),
        limit,
        longest_ttl: Duration::from_secs(30),
    }
}

/// How many leases the cluster has.
fn leases(etcd: &Etcd) -> usize {
    etcd.post("/v3/lease/leases", "{}")["leases"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn the_etcd_node_keeps_the_contract() {
    let etcd = Etcd::start(1);
    // It sends many commands at once, none of which may be given up.
    contract_without_time(&node_within(&etcd.url(), SOON), Losers::LeaveIt, Unraised::WithCounter).await;
}

#[tokio::test]
async fn extending_never_shortens_and_leaves_one_lease_for_each_lock() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    // No lease ends by itself while we wait for its end.
    let ttl = 30 * TTL;
    ask(&node, &acquire("a", 1, 5, ttl, false)).await;
    assert_eq!(ask(&node, &extend("a", 1, ttl / 2, false)).await, "done");
    assert_eq!(inspect(&node, "a").await, "ann1@web fence 5 left 300 counter 5");
    assert_eq!(ask(&node, &extend("a", 1, 4 * ttl, false)).await, "done");
    assert_eq!(inspect(&node, "a").await, "ann1@web fence 5 left 1200 counter 5");
    // One for all counters, and one for the lock.
    until("the old lease is gone", SOON, async || leases(&etcd) == 2).await;
    assert_eq!(ask(&node, &release("a", 1)).await, "done");
    until("the last one, too", SOON, async || leases(&etcd) == 1).await;
    assert_eq!(inspect(&node, "a").await, "free, counter 5");
    ask(&node, &acquire("a", 1, 6, TTL, false)).await;
    assert_eq!(ask(&node, &acquire("a", 2, 7, TTL, false)).await, "taken");
    assert_eq!(leases(&etcd), 2, "a client that is refused leaves nothing behind");
}

/// The answer to an acquire was not waited for, and it comes to the cluster after its release.
#[tokio::test]
async fn a_release_ends_an_acquire_that_is_still_on_its_way() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    let lock = store.keys(&name("a")).lock;
    let Command::Acquire(late) = acquire("a", 1, 5, TTL, false) else { unreachable!() };
    let lease = store.keys(&late.name).lease(&token(1));
    store.api.grant(lease, TTL).await.unwrap();
    store.execute(&release("a", 1)).await.unwrap();
    let put = json::Txn::default().then(json::put(&lock, late.value().as_bytes(), lease));
    let refused = store.api.execute(&put).await.unwrap_err();
    assert!(refused.to_string().contains("lease not found"), "{refused}");
    assert_eq!(store.api.read(&lock).await.unwrap(), None);
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
    let lease = async |name: &str| {
        let key = format!("quorlock/fence/{name}");
        one.api.read(key.as_bytes()).await.unwrap().unwrap().lease
    };
    let shared = lease("a").await;
    until("only that of the counter is left", SOON, async || leases(&etcd) == 1).await;
    let left = one.api.left(shared).await.unwrap();
    assert!(left > Duration::from_secs(27 * 86_400), "{left:?}");

    assert!(one.api.revoke(shared).await.unwrap());
    assert!(one.execute(&acquire("a", 4, 50, TTL, false)).await.is_err(), "it knew of the lease before");
    let reply = one.execute(&acquire("a", 5, 51, TTL, false)).await.unwrap();
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
    let body = format!(r#"{{"key":"{}","value":"{}"}}"#, json::text("quorlock/lock/a"), json::text("mine"));
    etcd.post("/v3/kv/put", &body);
    assert_eq!(inspect(&node, "a").await, "foreign mine");
    assert_eq!(ask(&node, &acquire("a", 1, 5, TTL, false)).await, "taken");
    assert_eq!(ask(&node, &release("a", 1)).await, "taken");
    let odd = format!(r#"{{"key":"{}","value":"{}"}}"#, json::text("quorlock/fence/b"), json::text("zz"));
    etcd.post("/v3/kv/put", &odd);
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

/// What one member reports about a lease cannot be relied on, so every extension makes a new one.
#[tokio::test]
async fn every_extension_is_a_new_lease_and_takes_the_counter_along() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    store.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
    let entry = async |key: &[u8]| store.api.read(key).await.unwrap().unwrap();
    let (lock, counter) = (store.keys(&name("a")).lock, b"quorlock/fence/a");
    let (first, weekly) = (entry(&lock).await.lease, entry(counter).await.lease);
    // As it was weeks ago.
    let old = json::Txn::default().then(json::put(counter, &entry(counter).await.value, 0));
    store.api.execute(&old).await.unwrap();
    for ttl in [TTL / 2, TTL] {
        let before = entry(&lock).await.lease;
        store.execute(&extend("a", 1, ttl, false)).await.unwrap();
        assert_ne!(entry(&lock).await.lease, before);
    }
    assert_eq!(entry(counter).await.lease, weekly);
    assert_ne!(entry(&lock).await.lease, first);
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
async fn a_release_is_done_only_if_the_lock_was_there() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    store.execute(&acquire("a", 2, 5, TTL, false)).await.unwrap();
    // The lease of an attempt that came to nothing.
    let lease = store.keys(&name("a")).lease(&token(1));
    store.api.grant(lease, TTL).await.unwrap();
    let reply = store.execute(&release("a", 1)).await.unwrap();
    assert!(matches!(reply, Reply::Denied(Denied::Taken)), "{reply:?}");
    assert!(!store.api.revoke(lease).await.unwrap(), "it was ended");
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
    let first = api.read(b"a").await.unwrap_err().to_string();
    assert!(first.contains("503") && first.contains("JSON gateway"), "{first}");
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
    let lock = holder.keys(&name("a")).lock;
    for round in 0..60 {
        holder.execute(&acquire("a", round, 5 + u64::from(round), TTL, false)).await.unwrap();
        let (extension, taken) = (extend("a", round, TTL, false), release("a", round));
        let (_, released) = tokio::join!(holder.execute(&extension), async {
            tokio::time::sleep(Duration::from_micros(100 * u64::from(round))).await;
            other.execute(&taken).await.unwrap()
        });
        assert!(matches!(released, Reply::Done(_)), "{released:?}");
        assert_eq!(holder.api.read(&lock).await.unwrap(), None, "in round {round}");
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
    /// What is done right before the first request that writes a key.
    meddle: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// The answer to a read of the key `late` is here, and may go on.
    is_late: Notify,
    may_go_on: Notify,
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
        let mut is_late = false;
        loop {
            tokio::select! {
                Ok(length @ 1..) = client.read(&mut asked) => {
                    let text = String::from_utf8_lossy(&asked[..length]);
                    is_late = text.contains(&json::text("late"));
                    let writes = ["request_put", "request_delete_range"].iter().any(|step| text.contains(step));
                    if let Some(meddle) = self.meddle.lock().take_if(|_| writes) {
                        meddle();
                    }
                    server.write_all(&asked[..length]).await.unwrap();
                }
                Ok(length @ 1..) = server.read(&mut answered) => {
                    if is_late {
                        self.is_late.notify_one();
                        self.may_go_on.notified().await;
                    }
                    if client.write_all(&answered[..length]).await.is_err() {
                        return;
                    }
                }
                else => return,
            }
        }
    }
}

/// The address of a proxy to `etcd`, which calls `meddle` right before the first request that writes a key.
async fn meddled(etcd: &Etcd, meddle: impl FnOnce() + Send + 'static) -> String {
    let proxy = Proxy::to(etcd);
    *proxy.meddle.lock() = Some(Box::new(meddle));
    format!("etcd://{}", proxy.listen().await)
}

/// Another client, which writes without reading first.
fn write(etcd: &Etcd, key: &str, value: &str) {
    etcd.post("/v3/kv/put", &format!(r#"{{"key":"{}","value":"{}"}}"#, json::text(key), json::text(value)));
}

/// Goal: whatever comes between the read and the write of a command, it changes no lock of another
/// client.
#[tokio::test]
async fn a_lock_that_comes_between_look_and_change_stays() {
    let Command::Acquire(theirs) = acquire("a", 2, 7, TTL, false) else { unreachable!() };
    let table = [
        (true, release("a", 1)),
        (true, extend("a", 1, TTL, false)),
        (true, stamp("a", 1, 9)),
        (false, acquire("a", 1, 9, 30 * TTL, false)),
    ];
    for (is_held, command) in table {
        let etcd = Arc::new(Etcd::start(1));
        let direct = store(&etcd.url());
        if is_held {
            direct.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
        }
        let (there, value) = (etcd.clone(), theirs.value());
        let url = meddled(&etcd, move || write(&there, "quorlock/lock/a", &value)).await;
        let store = store(&url);
        let reply = store.execute(&command).await.unwrap();
        assert!(matches!(reply, Reply::Denied(Denied::Taken)), "{command:?}: {reply:?}");
        if !is_held {
            assert!(store.was_refused(&name("a"), &token(1)), "it has nothing to undo");
            until("its lease is gone, that of the counter stays", SOON, async || leases(&etcd) == 1).await;
        }
        let left = direct.api.read(b"quorlock/lock/a").await.unwrap().expect("it is still there");
        assert_eq!(left.value, theirs.value().as_bytes(), "{command:?}");
    }
}

/// Goal: whatever comes between the read and the write of a command, no counter goes back.
#[tokio::test]
async fn a_counter_that_rises_between_look_and_change_is_not_set_back() {
    for (command, highest) in [(stamp("a", 1, 9), "91"), (extend("a", 1, TTL, false), "90")] {
        let etcd = Arc::new(Etcd::start(1));
        let direct = store(&etcd.url());
        direct.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
        // Without a lease, so that an extension gives it one.
        write(&etcd, "quorlock/fence/a", "0000000000000005");
        let there = etcd.clone();
        let url = meddled(&etcd, move || write(&there, "quorlock/fence/a", "0000000000000090")).await;
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
    let (api, key) = (&store.api, b"quorlock/lock/a");
    // The first may find out that its connection is gone.
    let _ = api.read(key).await;
    let kind = |error: NodeError| error.kind();
    assert_eq!(api.read(key).await.map_err(kind), Err("other_cluster"));
    assert_eq!(api.keys(key, 9).await.map_err(kind), Err("other_cluster"));
    let txn = json::Txn::default().then(json::read(key));
    assert_eq!(api.execute(&txn).await.map(drop).map_err(kind), Err("other_cluster"));
    assert_eq!(api.grant(5, TTL).await.map_err(kind), Err("other_cluster"));
    assert_eq!(api.revoke(5).await.map_err(kind), Err("other_cluster"));
    assert_eq!(api.revoke(6).await.map_err(kind), Err("other_cluster"), "a lease that is not there");
    assert_eq!(api.left(5).await.map_err(kind), Err("other_cluster"));
    assert_eq!(api.status().await.map(drop).map_err(kind), Err("other_cluster"));
    assert_eq!(api.members().await.map_err(kind), Err("other_cluster"));
    let watch = watch::Watch::begin(&store, &name("a"), 0, Duration::from_secs(5)).await;
    assert_eq!(watch.map(drop).map_err(kind), Err("other_cluster"));
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
    assert_eq!(store.names().await.map(drop).map_err(kind), Err("other_cluster"));
    assert_eq!(store.examine().await.map(drop).map_err(kind), Err("other_cluster"));
}

/// Goal: answers that overtake each other do not look like a restore.
#[tokio::test]
async fn an_answer_that_a_newer_one_overtakes_counts() {
    let etcd = Etcd::start(1);
    let proxy = Proxy::to(&etcd);
    let store = store(&format!("etcd://{}", proxy.listen().await));
    let api = store.api.clone();
    let late = tokio::spawn(async move { api.read(b"late").await });
    tokio::time::timeout(SOON, proxy.is_late.notified()).await.unwrap();
    store.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
    proxy.may_go_on.notify_one();
    assert_eq!(tokio::time::timeout(SOON, late).await.unwrap().unwrap().unwrap(), None);
}

/// Goal: a member of another cluster stops the node while it is there, and not for longer.
#[tokio::test]
async fn a_node_votes_again_when_its_members_are_of_one_cluster() {
    let (one, other) = (Etcd::start(1), Etcd::start(1));
    let proxy = Proxy::to(&other);
    let node = node_within(&format!("{},{}", one.url(), proxy.listen().await), SOON);
    let refused = ask(&node, &acquire("a", 1, 5, TTL, false)).await;
    assert!(refused.contains("another etcd cluster"), "{refused}");
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
    until("it is found", SOON, async || inspect(&node, "a").await.contains("another etcd cluster")).await;
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
    assert_eq!(leases(&etcd), 1);
}

#[tokio::test]
async fn the_token_of_a_repair_or_an_upgrade_is_still_to_be_released() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    let Command::Acquire(repair) = acquire("a", 1, 5, TTL, false) else { unreachable!() };
    store.record_unsent(&Command::Acquire(crate::node::Acquire {
        kind: crate::node::AcquireKind::Repair,
        ..repair
    }));
    assert!(!store.was_refused(&name("a"), &token(1)));
    store.record_unsent(&upgrade("a", 1, 5));
    assert!(!store.was_refused(&name("a"), &token(1)));
    store.record_unsent(&acquire("a", 1, 5, TTL, false));
    assert!(store.was_refused(&name("a"), &token(1)) && !store.was_refused(&name("b"), &token(1)));
    store.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
    let reply = store.execute(&release("a", 1)).await.unwrap();
    assert!(matches!(reply, Reply::Done(_)), "it was sent after all: {reply:?}");
}

#[tokio::test]
async fn a_list_that_is_cut_off_says_so() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    let names: Vec<usize> = (0..=Names::MOST).collect();
    for some in names.chunks(100) {
        let txn = some.iter().fold(json::Txn::default(), |txn, number| {
            txn.then(json::put(format!("quorlock/lock/{number}").as_bytes(), b"", 0))
        });
        store.api.execute(&txn).await.unwrap();
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
    for _ in 0..executor::MAX_WAITING {
        crate::quorum::round::send_without_reply(&nodes, one, acquire("a", 1, 5, TTL, false));
    }
    let refused = ask(&node, &acquire("a", 2, 6, TTL, false)).await;
    assert!(refused.contains("queue of 4096"), "{refused}");
    crate::quorum::round::send_without_reply(&nodes, one, release("a", 1));
    assert_eq!(node.health().queued, executor::MAX_WAITING + 1);
    etcd.resume(0);
}

#[tokio::test]
async fn an_examination_writes_nothing() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    store.examine().await.unwrap();
    assert_eq!(store.api.keys(b"quorlock/", 9).await.unwrap(), (Vec::new(), true));
}
