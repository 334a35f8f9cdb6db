//! What nodes record about themselves: the longest ttl, their database, how they sync, and who took a lock by force.
#![allow(clippy::unwrap_used)]

mod net;

use net::{NODE_TIMEOUT, Net, SOON, kinds, release, secs, until_granted};
use quorlock::node::NodeError;
use quorlock::{AcquireError, Builder, Guard, Locker, NodeOutcome, ReleaseOutcome};
use quorlock_testkit::proxy::{Fault, Proxy};
use quorlock_testkit::{Fsync, Server, Servers, until};
use std::time::Duration;

/// What each node said when `name` was refused for want of a quorum.
fn causes(refused: &AcquireError) -> Vec<NodeError> {
    let AcquireError::NoQuorum { nodes, .. } = refused else { panic!("{refused}") };
    let causes = nodes.iter().filter_map(|report| match &report.outcome {
        NodeOutcome::Failed(cause) => Some(cause.clone()),
        _ => None,
    });
    causes.collect()
}

/// How long each node that is quarantined stays so, for a client that asks for `name`.
async fn quarantines(locker: &Locker, name: &str) -> Vec<Duration> {
    let Err(refused) = locker.named(name).unwrap().try_acquire().await else { return Vec::new() };
    let left = |cause: &NodeError| match cause {
        NodeError::Quarantined { left } => Some(*left),
        _ => None,
    };
    causes(&refused).iter().filter_map(left).collect()
}

fn epoch(server: &Server) -> String {
    server.cli(&["GET", "quorlock:epoch"])
}

/// Makes the epoch of `server` begin that much earlier.
fn make_older(server: &Server, by: Duration) {
    let stored = epoch(server);
    let mut fields: Vec<String> = stored.split(':').map(str::to_owned).collect();
    for time in &mut fields[2..4] {
        *time = (time.parse::<u128>().unwrap() - by.as_millis()).to_string();
    }
    server.cli(&["SET", "quorlock:epoch", &fields.join(":")]);
}

async fn acquire(locker: &Locker, name: &str) -> Guard {
    locker.named(name).unwrap().watchdog(false).acquire().await.unwrap()
}

/// Goal: S1, S7. Address 2 leads to X, then to Y, then to X again. A holds the lock on node 1 and Y; X, whose epoch is old,
/// must not give it to B.
#[tokio::test]
async fn a_server_that_was_replaced_and_comes_back_does_not_vote_at_once() {
    let net = Net::start(1).await;
    let (one, two, three) = (&net.servers[1], &net.proxies[0], &net.servers[2]);
    let replacement = Server::start();
    let nodes = || [one.url(), two.url(), three.url()];
    let build = || Locker::builder().nodes(nodes()).node_timeout(NODE_TIMEOUT).ttl(secs(30)).build().unwrap();
    quorlock_testkit::init_nodes(&build()).await;
    net.servers.iter().for_each(|server| make_older(server, secs(3600)));
    let (a, b) = (build(), build());
    until_granted(&a, "warm").await;
    until_granted(&b, "warm").await;
    two.lead_to(replacement.port());
    quorlock_testkit::init_nodes(
        &Locker::builder()
            .nodes([replacement.url()])
            .restart_guard(quorlock::RestartGuard::Strict)
            .build()
            .unwrap(),
    )
    .await;
    for locker in [&a, &b] {
        until("the replacement votes", SOON, async || {
            let guard = locker.named("warm").unwrap().try_acquire().await;
            let kept = replacement.cli(&["EXISTS", "warm"]) == "1";
            if let Ok(guard) = guard {
                let _outcome = guard.release().await;
            }
            kept
        })
        .await;
    }
    three.pause();
    let guard = acquire(&a, "a").await;
    assert_eq!(guard.votes(), 2);
    three.resume();
    one.pause();
    two.lead_to(net.servers[0].port());
    until("B is back on the first server", SOON, async || quarantines(&b, "b").await.len() == 1).await;
    let refused = b.named("a").unwrap().try_acquire().await;
    one.resume();
    assert!(refused.is_err(), "two hold the lock");
    assert!(guard.is_held());
}

/// Goal: S1. A holds for 120 s on nodes 1 and 2; node 2 forgets; B, which is set to 30 s, must not get it on 2 and 3.
#[tokio::test]
async fn a_node_that_forgot_waits_for_the_longest_ttl_that_others_recorded() {
    let mut net = Net::start(0).await;
    let a = net.builder().longest_ttl(secs(120)).ttl(secs(120)).build().unwrap();
    quorlock_testkit::init_nodes(&a).await;
    let _guard = acquire(&a, "a").await;
    net.servers[1].restart();
    let b = net.builder().build().unwrap();
    net.servers[0].pause();
    let mut left = Duration::ZERO;
    until("node 2 is quarantined", SOON, async || {
        left = quarantines(&b, "b").await.into_iter().max().unwrap_or_default();
        !left.is_zero()
    })
    .await;
    net.servers[0].resume();
    assert!(left > secs(100), "it waits {left:?}, and a lock of 120 s may be forgotten");
    assert!(epoch(&net.servers[1]).contains(":120000:"), "{}", epoch(&net.servers[1]));
}

/// Goal: the same where the client hears the longer ttl only after the node that forgot has got its epoch.
#[tokio::test]
async fn a_longer_ttl_that_is_heard_later_is_recorded_on_nodes_that_lack_it() {
    let net = Net::start(0).await;
    let short = net.locker().await;
    until_granted(&short, "warm").await;
    let raised = net.builder().build().unwrap();
    for report in raised.raise_longest_ttl(secs(300)).await.unwrap() {
        assert!(matches!(report.outcome, NodeOutcome::Yes), "{report}");
    }
    net.servers[2].cli(&["SET", "quorlock:epoch", &epoch(&net.servers[2]).replace(":300000:", ":30000:")]);
    let other = net.builder().build().unwrap();
    until("all have recorded it", SOON, async || {
        drop(other.named("b").unwrap().try_acquire().await);
        net.servers.iter().all(|server| epoch(server).contains(":300000:"))
    })
    .await;
}

/// Goal: a client that only looks writes nothing, whatever its settings.
#[tokio::test]
async fn looking_leaves_nothing_behind_on_any_node() {
    let net = Net::start(0).await;
    let look = || net.builder().longest_ttl(secs(86_400)).begin_epochs(false).build().unwrap();
    let looker = look();
    looker.named("a").unwrap().inspect().await.unwrap();
    looker.list().await.unwrap();
    for server in net.servers.iter() {
        assert_eq!(server.cli(&["DBSIZE"]), "0");
    }
    let refused = looker.named("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(kinds(&refused), ["no_epoch"; 3]);
    let locker = net.locker().await;
    let before: Vec<String> = net.servers.iter().map(epoch).collect();
    look().named("a").unwrap().inspect().await.unwrap();
    assert_eq!(net.servers.iter().map(epoch).collect::<Vec<_>>(), before);
    until_granted(&locker, "a").await;
    until_granted(&look(), "a").await;
}

#[tokio::test]
async fn looking_at_a_durable_node_that_restarted_leaves_its_epoch_as_it_was() {
    let mut servers = Servers::start_like(&Server::builder().aof(Fsync::Always), 1);
    let strict = |servers: &Servers| durable(servers).restart_guard(quorlock::RestartGuard::Strict);
    quorlock_testkit::init_nodes(&strict(&servers).build().unwrap()).await;
    servers[0].restart();
    let before = epoch(&servers[0]);
    let looker = strict(&servers).begin_epochs(false).build().unwrap();
    looker.named("a").unwrap().inspect().await.unwrap();
    assert_eq!(epoch(&servers[0]), before);
    until_granted(&strict(&servers).build().unwrap(), "a").await;
    assert_ne!(epoch(&servers[0]), before, "a client that takes locks confirms it for this run");
}

/// Goal: one client with a longer ttl is refused alone, and says why; the others go on.
#[tokio::test]
async fn a_ttl_that_is_not_recorded_is_refused_for_that_client_alone() {
    let net = Net::start(0).await;
    let short = net.locker().await;
    let long = net.builder().longest_ttl(secs(86_400)).ttl(secs(86_400)).build().unwrap();
    let refused = long.named("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(kinds(&refused), ["ttl_not_recorded"; 3]);
    assert!(refused.to_string().contains("quorlock init --raise"), "{refused}");
    until_granted(&short, "a").await;
    until_granted(&net.builder().longest_ttl(secs(86_400)).build().unwrap(), "a").await;
    assert!(epoch(&net.servers[0]).contains(":30000:"), "{}", epoch(&net.servers[0]));
    for report in long.raise_longest_ttl(secs(86_400)).await.unwrap() {
        assert!(matches!(report.outcome, NodeOutcome::Yes), "{report}");
    }
    for locker in [&long, &short, &net.builder().build().unwrap()] {
        until_granted(locker, "a").await;
    }
}

#[tokio::test]
async fn a_node_in_quarantine_cannot_be_raised_yet() {
    let net = Net::start(0).await;
    let locker = net.builder().build().unwrap();
    drop(locker.named("a").unwrap().try_acquire().await);
    for report in locker.raise_longest_ttl(secs(300)).await.unwrap() {
        let NodeOutcome::Failed(NodeError::Quarantined { left }) = report.outcome else { panic!("{report}") };
        assert!(left > secs(20), "{left:?}");
    }
    let looker = net.builder().begin_epochs(false).build().unwrap();
    net.servers[0].flushall();
    let results = looker.raise_longest_ttl(secs(300)).await.unwrap();
    assert!(matches!(results[0].outcome, NodeOutcome::Failed(NodeError::NoEpoch)), "{results:?}");
    assert!(looker.raise_longest_ttl(secs(8 * 86_400)).await.is_err());
}

/// Goal: S7. Two databases of one server, both initialised, change places: neither remembers the other's locks.
#[tokio::test]
async fn databases_that_were_swapped_do_not_vote_with_the_memory_of_the_other() {
    let net = Net::start(0).await;
    let on = |db: u32| {
        let urls: Vec<String> = net.servers.iter().map(|server| format!("{}/{db}", server.url())).collect();
        Locker::builder().nodes(urls).node_timeout(NODE_TIMEOUT).ttl(secs(30))
    };
    for db in [0, 1] {
        quorlock_testkit::init_nodes(&on(db).build().unwrap()).await;
    }
    let (holder, rival) = (on(0).build().unwrap(), on(0).build().unwrap());
    until_granted(&rival, "warm").await;
    let guard = acquire(&holder, "a").await;
    let swap = |times: usize| {
        for _ in 0..times {
            net.servers[..2].iter().for_each(|server| drop(server.cli(&["SWAPDB", "0", "1"])));
        }
    };
    swap(1);
    for _ in 0..5 {
        assert!(rival.named("a").unwrap().try_acquire().await.is_err(), "two hold the lock");
    }
    until("two are quarantined", SOON, async || quarantines(&rival, "b").await.len() == 2).await;
    // And back again: what the database holds now knows nothing of what was answered in between.
    swap(1);
    until("two are quarantined again", SOON, async || {
        assert!(rival.named("c").unwrap().try_acquire().await.is_err(), "an old epoch votes at once");
        quarantines(&rival, "b").await.iter().filter(|left| **left > secs(35)).count() == 2
    })
    .await;
    drop(guard);
}

fn durable(servers: &Servers) -> Builder {
    Locker::builder().nodes(servers.urls()).node_timeout(NODE_TIMEOUT).durable(true)
}

/// Goal: S7. A server that does not sync while it saves may forget what it answered then.
#[tokio::test]
async fn a_server_that_does_not_sync_while_it_saves_is_not_durable() {
    let options = Server::builder().aof(Fsync::Always).line("no-appendfsync-on-rewrite yes");
    let servers = Servers::start_like(&options, 1);
    let refused = durable(&servers).build().unwrap().named("a").unwrap().try_acquire().await.unwrap_err();
    let causes = causes(&refused);
    assert!(
        matches!(&causes[..], [NodeError::NotDurable { found }] if found.contains("no-appendfsync-on-rewrite")),
        "{causes:?}"
    );
    let good = Servers::start_like(&Server::builder().aof(Fsync::Always), 1);
    let locker = durable(&good).build().unwrap();
    until_granted(&locker, "a").await;
    good[0].cli(&["CONFIG", "SET", "no-appendfsync-on-rewrite", "yes"]);
    until("it is noticed in use", SOON, async || locker.named("a").unwrap().try_acquire().await.is_err())
        .await;
}

/// Goal: S7. A run in which the server synced every second may have lost its end, however it is set up now.
#[tokio::test]
async fn a_restart_is_believed_only_if_the_run_before_it_was_durable() {
    let mut servers = Servers::start_like(&Server::builder().aof(Fsync::Always), 3);
    servers.iter().for_each(|server| drop(server.cli(&["CONFIG", "SET", "appendfsync", "everysec"])));
    let plain = Locker::builder().nodes(servers.urls()).node_timeout(NODE_TIMEOUT).build().unwrap();
    quorlock_testkit::init_nodes(&plain).await;
    until_granted(&plain, "a").await;
    drop(plain);
    // They come back with `appendfsync always`, as their configuration says.
    (0..3).for_each(|number| servers[number].restart());
    let refused = durable(&servers).build().unwrap().named("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(kinds(&refused), ["quarantined"; 3]);
}

/// Goal: S7. A server that was durable and is set up otherwise while it runs is not believed after the next restart.
#[tokio::test]
async fn a_server_that_stopped_to_sync_every_write_is_remembered_as_such() {
    let mut servers = Servers::start_like(&Server::builder().aof(Fsync::Always), 3);
    let locker = durable(&servers).build().unwrap();
    quorlock_testkit::init_nodes(&locker).await;
    until_granted(&locker, "a").await;
    assert!(epoch(&servers[0]).contains(":d:"), "{}", epoch(&servers[0]));
    servers.iter().for_each(|server| drop(server.cli(&["CONFIG", "SET", "appendfsync", "everysec"])));
    until("the epoch says so", SOON, async || {
        drop(locker.named("a").unwrap().try_acquire().await);
        servers.iter().all(|server| epoch(server).contains(":n:"))
    })
    .await;
    drop(locker);
    (0..3).for_each(|number| servers[number].restart());
    let refused = durable(&servers).build().unwrap().named("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(kinds(&refused), ["quarantined"; 3]);
}

/// Goal: S1. Five nodes; the operator reaches 1, 2 and 3, the holder reaches 3, 4 and 5. Once a majority has confirmed that the
/// lock was taken away, the holder's watchdog must not bring it back.
#[tokio::test]
async fn a_lock_that_was_taken_by_force_is_not_restored_by_its_holder() {
    let servers = Servers::start(5);
    let (mut for_holder, mut for_operator) = (Vec::new(), Vec::new());
    for server in servers.iter() {
        for_holder.push(Proxy::start(server.port()).await);
        for_operator.push(Proxy::start(server.port()).await);
    }
    let on = |proxies: &[Proxy]| {
        let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
        Locker::builder().nodes(urls).node_timeout(NODE_TIMEOUT).ttl(secs(6)).build().unwrap()
    };
    for proxy in &for_operator[3..] {
        proxy.set(Fault::Refuse).await;
    }
    let (holder, operator) = (on(&for_holder), on(&for_operator));
    quorlock_testkit::init_nodes(&holder).await;
    let guard = holder.named("a").unwrap().acquire().await.unwrap();
    until("all five have it", SOON, async || servers.iter().all(|it| it.cli(&["EXISTS", "a"]) == "1")).await;
    for proxy in &for_holder[..2] {
        proxy.set(Fault::Refuse).await;
        proxy.cut();
    }
    let outcome = operator.named("a").unwrap().force_release(guard.token()).await;
    assert!(matches!(outcome, ReleaseOutcome::Released), "{outcome}");
    let lost = tokio::time::timeout(SOON, guard.lost()).await;
    assert!(lost.is_ok(), "the holder keeps a lock that was taken away");
    assert_eq!(servers[2].cli(&["EXISTS", "a"]), "0", "node 3 had deleted it");
}

/// Goal: a vote is a plain SET. One that reaches a server after the forced release of its lock does not
/// keep the lock held.
#[tokio::test]
async fn a_vote_that_arrives_after_the_forced_release_of_its_lock_is_not_extended() {
    let net = Net::start(0).await;
    let (holder, operator) = (net.locker().await, net.builder().build().unwrap());
    let guard = holder.named("a").unwrap().watchdog(false).acquire().await.unwrap();
    let outcome = operator.named("a").unwrap().force_release(guard.token()).await;
    assert!(matches!(outcome, ReleaseOutcome::Released), "{outcome}");
    net.until_free("a").await;
    for server in net.servers.iter() {
        let vote = format!("{} {} me@host 1 1", guard.token(), guard.fence());
        assert_eq!(server.cli(&["SET", "a", &vote, "NX", "PX", "30000"]), "OK");
    }
    let extended = guard.extend().await;
    assert!(matches!(extended, Err(quorlock::ExtendError::Lost(_))), "{extended:?}");
}

/// The same for a reader that tries to become a writer.
#[tokio::test]
async fn a_reader_whose_vote_arrives_after_its_forced_release_is_not_upgraded() {
    let net = Net::start(0).await;
    let (holder, operator) = (net.locker().await, net.builder().build().unwrap());
    let guard = holder.named("a").unwrap().shared().watchdog(false).acquire().await.unwrap();
    let outcome = operator.named("a").unwrap().force_release(guard.token()).await;
    assert!(matches!(outcome, ReleaseOutcome::Released), "{outcome}");
    net.until_free("a").await;
    for server in net.servers.iter() {
        let (token, label) = (guard.token().to_string(), format!("{} me@host 1 1", guard.fence()));
        server.cli(&["ZADD", "a", "9999999999999", &token]);
        server.cli(&["HSET", "quorlock:readers:{a}", &token, &label]);
    }
    assert!(guard.try_upgrade().await.is_err());
}

/// Goal: a forced release may reach the last server one longest ttl after the first. The holder may extend
/// the lock until then, and repair the first server for another ttl.
#[tokio::test]
async fn a_forced_release_is_remembered_for_two_longest_ttls() {
    let net = Net::start(0).await;
    let (holder, operator) = (net.locker().await, net.builder().build().unwrap());
    let guard = holder.named("a").unwrap().watchdog(false).acquire().await.unwrap();
    drop(operator.named("a").unwrap().force_release(guard.token()).await);
    net.until_free("a").await;
    let mark = format!("quorlock:taken:{{a}}:{}", guard.token());
    for server in net.servers.iter() {
        let left: u64 = server.cli(&["PTTL", &mark]).parse().unwrap();
        assert!((60_000..=70_000).contains(&left), "{left}");
    }
}

/// Goal: a guard that was given away does not bring the lock back after its new owner has released it.
#[tokio::test]
async fn a_late_repair_of_a_lock_that_was_given_away_is_refused() {
    let net = Net::start(0).await;
    let (giver, taker) = (net.locker().await, net.builder().build().unwrap());
    let guard = giver.named("a").unwrap().watchdog(false).acquire().await.unwrap();
    let handle = guard.into_handle().await.unwrap();
    let adopted = taker.adopt(&handle).await.unwrap();
    let token = adopted.token();
    release(adopted).await;
    for server in net.servers.iter() {
        until("the release is there", SOON, async || server.cli(&["EXISTS", "a"]) == "0").await;
        assert_eq!(server.cli(&["EXISTS", &format!("quorlock:taken:{{a}}:{token}")]), "1");
    }
}

/// Goal: S1. A durable node that was restored from the files of another one: nothing says which of the two is the copy.
#[tokio::test]
async fn two_nodes_with_the_same_epoch_do_not_vote() {
    let servers = Servers::start_like(&Server::builder().aof(Fsync::Always), 3);
    let locker = durable(&servers).build().unwrap();
    quorlock_testkit::init_nodes(&locker).await;
    until_granted(&locker, "a").await;
    let copied = epoch(&servers[0]);
    let nonce = copied.rsplit(':').next().unwrap();
    let own = epoch(&servers[1]);
    let (start, _) = own.rsplit_once(':').unwrap();
    servers[1].cli(&["SET", "quorlock:epoch", &format!("{start}:{nonce}")]);
    let rival = durable(&servers).build().unwrap();
    // A client that has not reached node 1 yet cannot know, so the first attempts may be granted.
    until("both are refused", SOON, async || match rival.named("b").unwrap().try_acquire().await {
        Ok(_) => false,
        Err(refused) => kinds(&refused) == ["same_epoch"; 2] && refused.to_string().contains("copy"),
    })
    .await;
    servers[1].cli(&["SET", "quorlock:epoch", &own]);
    until_granted(&rival, "b").await;
}

/// Goal: other clients of the same servers, which know of no quarantine, see that a name is taken on a node that restarted.
#[tokio::test]
async fn an_attempt_leaves_its_key_on_a_node_that_does_not_vote_yet() {
    let mut net = Net::start(0).await;
    let locker = net.locker().await;
    until_granted(&locker, "warm").await;
    net.servers[2].restart();
    until("it is quarantined", SOON, async || {
        let health = locker.health();
        drop(locker.named("warm").unwrap().try_acquire().await);
        matches!(health[2].health.trouble, Some(NodeError::Quarantined { .. }))
    })
    .await;
    let guard = acquire(&locker, "a").await;
    until("the key is there", SOON, async || net.servers[2].cli(&["EXISTS", "a"]) == "1").await;
    assert_eq!(guard.votes(), 2, "it is there, and does not count");
    release(guard).await;
    net.until_free("a").await;
}

/// Goal: the year 2300 on one client's clock must not use a name's fences up for all others.
#[tokio::test]
async fn a_client_whose_clock_is_centuries_ahead_leaves_the_name_usable() {
    let net = Net::start(0).await;
    let locker = net.locker().await;
    let clock = quorlock_testkit::TestClock::start();
    clock.jump_wall_millis(274 * 365 * 86_400_000);
    let odd = net.builder().clock(clock).build().unwrap();
    let held = acquire(&locker, "a").await;
    let before = held.fence();
    assert!(odd.named("a").unwrap().try_acquire().await.is_err());
    release(held).await;
    let guard = acquire(&locker, "a").await;
    assert!(
        guard.fence() > before && guard.fence().get() < before.get() + 60_000_000,
        "{} after {before}",
        guard.fence()
    );
}

/// Goal: S3, S4 after the loss of one node's counter. A client whose clock lags by a minute proposes by the nodes' clocks.
#[tokio::test]
async fn a_client_whose_clock_lags_proposes_by_the_clocks_of_the_nodes() {
    let net = Net::start(0).await;
    let locker = net.locker().await;
    let before = {
        let guard = acquire(&locker, "a").await;
        let fence = guard.fence();
        release(guard).await;
        fence
    };
    net.servers.iter().for_each(|server| drop(server.cli(&["DEL", "quorlock:fence:{a}"])));
    let clock = quorlock_testkit::TestClock::start();
    clock.jump_wall_millis(-60_000);
    let lagging = net.builder().clock(clock).build().unwrap();
    until_granted(&lagging, "warm").await;
    let guard = acquire(&lagging, "a").await;
    assert!(guard.fence() > before, "{} after {before}", guard.fence());
}
