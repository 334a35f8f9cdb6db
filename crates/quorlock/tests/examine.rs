//! Examining real nodes: what they are, how they are set up, and what we may do there.
#![allow(clippy::unwrap_used)]

mod net;

use net::{Net, secs};
use quorlock::node::{Facts, NodeError, Purpose, Recall, ServerFacts};
use quorlock::{Builder, Locker, NodeExamination, RestartGuard};
use quorlock_testkit::{Binary, ClockShim, Fsync, Port, Server, until};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn builder<const N: usize>(urls: [String; N]) -> Builder {
    Locker::builder().nodes(urls).restart_guard(RestartGuard::Strict).connect_timeout(secs(5))
}

async fn examine<const N: usize>(urls: [String; N]) -> Vec<NodeExamination> {
    builder(urls).build().unwrap().examine().await
}

fn server(examination: &NodeExamination) -> &ServerFacts {
    match &examination.found {
        Ok(Facts::Server(facts)) => facts,
        other => panic!("{}: {other:?}", examination.node),
    }
}

fn kind(refusal: Option<&NodeError>) -> Option<&'static str> {
    refusal.map(NodeError::kind)
}

#[tokio::test]
async fn a_plain_server_is_described_and_left_as_it_was() {
    let one = Server::builder().line("maxmemory 100mb").start();
    let examined = examine([one.url()]).await;
    let facts = server(&examined[0]);
    assert!(facts.version.starts_with("redis "), "{facts:?}");
    assert_eq!((facts.mode.as_str(), facts.role.as_str()), ("standalone", "master"));
    assert_eq!((facts.run_id.len(), kind(facts.refusal.as_ref())), (40, None));
    assert_eq!((facts.eviction_policy.as_str(), facts.memory_limit), ("noeviction", Some(100 << 20)));
    assert!(facts.memory_used.is_some() && facts.uptime.is_some() && facts.denied.is_empty(), "{facts:?}");
    assert_eq!((facts.recall, &facts.epoch), (Recall::Nothing, &None));
    assert_eq!(facts.user.as_deref(), Some("default"));
    assert!(facts.round_trip.is_some_and(|time| time < secs(1)));
    assert!(facts.clock_ahead_micros.is_some_and(|ahead| ahead.abs() < 1_000_000));
    assert_eq!(one.cli(&["DBSIZE"]), "0", "nothing was written, no epoch began");
    let json = serde_json::to_value(&examined).unwrap();
    assert_eq!(json[0]["found"]["kind"], "server");
    assert_eq!(json[0]["found"]["recall"], "nothing");
    assert!(json[0]["found"]["round_trip_us"].is_u64(), "{json}");
}

#[tokio::test]
async fn what_a_server_remembers_is_told_from_how_it_is_set_up() {
    for (options, recall) in [
        (Server::builder().aof(Fsync::Always), Recall::Everything),
        (Server::builder().aof(Fsync::EverySecond), Recall::AllButTheLastSecond),
        (Server::builder().aof(Fsync::No), Recall::Partly),
        (Server::builder().line("save 60 1"), Recall::Partly),
        (Server::builder(), Recall::Nothing),
        (Server::builder().acl("user default on nopass ~* &* +@all -config"), Recall::Unknown),
    ] {
        let one = options.clone().start();
        assert_eq!(server(&examine([one.url()]).await[0]).recall, recall, "{options:?}");
    }
}

#[tokio::test]
async fn servers_that_cannot_be_nodes_are_described_with_the_reason() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(primary.port()).start();
    let cluster = Server::builder().cluster().start();
    let evicting = Server::builder().maxmemory("100mb", "allkeys-lru").start();
    let lazy = Server::builder().aof(Fsync::EverySecond).start();
    let lazy_url = format!("{}?durable=true", lazy.url());
    let urls = [primary.url(), replica.url(), cluster.url(), evicting.url(), lazy_url];
    let examined = examine(urls).await;
    let found: Vec<_> = examined.iter().map(|one| kind(server(one).refusal.as_ref())).collect();
    let expected = [None, Some("replica"), Some("cluster"), Some("evicts"), Some("not_durable")];
    assert_eq!(found, expected);
    assert_eq!(
        (server(&examined[1]).role.as_str(), server(&examined[2]).mode.as_str()),
        ("slave", "cluster")
    );
    assert!(examined.iter().all(|one| server(one).denied.is_empty()), "{examined:?}");
}

#[tokio::test]
async fn a_sentinel_is_described_as_one() {
    let (dir, port) = (tempfile::tempdir().unwrap(), Port::claim());
    let settings = dir.path().join("sentinel.conf");
    std::fs::write(&settings, format!("bind 127.0.0.1\nport {}\n", port.number())).unwrap();
    let mut program = Command::new(Binary::Redis.find().unwrap());
    program.arg(&settings).arg("--sentinel").stdout(Stdio::null()).current_dir(dir.path());
    let mut sentinel = program.spawn().unwrap();
    let locker = builder([format!("redis://127.0.0.1:{}", port.number())]).build().unwrap();
    let mut examined = Vec::new();
    until("it answers", net::SOON, async || {
        examined = locker.examine().await;
        examined[0].found.is_ok()
    })
    .await;
    sentinel.kill().unwrap();
    sentinel.wait().unwrap();
    let facts = server(&examined[0]);
    assert_eq!((facts.mode.as_str(), kind(facts.refusal.as_ref())), ("sentinel", Some("sentinel")));
    assert!(facts.version.starts_with("redis ") && facts.denied.is_empty(), "{facts:?}");
}

#[tokio::test]
async fn a_server_that_is_busy_with_a_script_is_told_so() {
    let one = Server::builder().line("busy-reply-threshold 1").start();
    let socket = one.connect().unwrap();
    let endless = std::thread::spawn(move || {
        let mut socket = socket;
        // The answer never comes.
        drop(socket.ask(&["EVAL", "while true do end", "0"]));
    });
    let locker = builder([one.url()]).build().unwrap();
    until("it is busy", net::SOON, async || matches!(locker.examine().await[0].found, Err(NodeError::Busy)))
        .await;
    one.cli(&["SCRIPT", "KILL"]);
    endless.join().unwrap();
}

#[tokio::test]
async fn one_server_under_two_addresses_is_found_out() {
    let (one, mut gone) = (Server::start(), Server::start());
    gone.kill();
    let examined = examine([one.url(), one.unix_url(), gone.url()]).await;
    assert_eq!(kind(server(&examined[0]).refusal.as_ref()), None);
    let Some(NodeError::SameServer { other }) = &server(&examined[1]).refusal else { panic!("{examined:?}") };
    assert_eq!(**other, *examined[0].node);
    assert!(examined[2].found.is_err(), "a server that is gone is no reason to forget the others");
}

#[tokio::test]
async fn the_epoch_is_read_and_never_begun_or_moved() {
    let mut net = Net::start(0).await;
    let locker = net.locker().await;
    let read = |net: &Net| net.servers[0].cli(&["GET", "quorlock:epoch"]);
    let before = read(&net);
    let examined = locker.examine().await;
    let epoch = server(&examined[0]).epoch.clone().unwrap();
    assert!(epoch.is_of_this_run && epoch.age < secs(30), "{epoch:?}");
    assert_eq!((epoch.longest_ttl, epoch.quarantine), (secs(30), Duration::ZERO), "declared fresh");
    assert_eq!(read(&net), before);

    // A connected client would begin a new epoch at once.
    drop(locker);
    net.servers[0].kill();
    net.servers[0].restart();
    let other = net.builder().build().unwrap();
    assert_eq!(server(&other.examine().await[0]).epoch, None, "it forgot");
    assert_eq!(read(&net), "");
    let _ = other.connect().await;
    net::until_granted(&other, "a").await;
    until("it votes later", net::SOON, async || {
        let epoch = server(&other.examine().await[0]).epoch.clone();
        epoch.is_some_and(|epoch| epoch.is_of_this_run && epoch.quarantine > secs(20))
    })
    .await;
}

#[tokio::test]
async fn a_restart_that_nobody_has_noticed_yet_is_told_by_the_epoch() {
    for (was_durable, is_durable, may_vote) in
        [(true, false, false), (false, true, false), (true, true, true)]
    {
        let mut one = Server::builder().aof(Fsync::Always).start();
        let locker = builder([one.url()]).durable(was_durable).build().unwrap();
        quorlock_testkit::init_nodes(&locker).await;
        drop(locker);
        one.kill();
        one.restart();
        let locker = builder([one.url()]).durable(is_durable).build().unwrap();
        let examined = locker.examine().await;
        let epoch = server(&examined[0]).epoch.clone().unwrap();
        assert!(!epoch.is_of_this_run);
        assert_eq!(epoch.quarantine.is_zero(), may_vote, "{was_durable} {is_durable} {epoch:?}");
    }
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_measured() {
    let clock = ClockShim::new();
    clock.jump_wall(secs(3600));
    let one = Server::builder().clock(&clock).start();
    let ahead = server(&examine([one.url()]).await[0]).clock_ahead_micros.unwrap();
    assert!((ahead - 3_600_000_000).abs() < 2_000_000, "{ahead}");
}

#[tokio::test]
async fn each_denied_command_key_and_channel_is_named_with_what_it_is_for() {
    let acl = "user app on >pw ~app:* ~quorlock:fence:* ~quorlock:readers:* ~quorlock:taken:* ~quorlock:slot:* %R~quorlock:epoch &other:* +@all -zcount -pexpire -scan -client -config -script|load -unsubscribe";
    let one = Server::builder().acl(acl).start();
    let url = format!("redis://app:pw@127.0.0.1:{}", one.port());
    let examined = examine([url]).await;
    let facts = server(&examined[0]);
    let denied: Vec<_> = facts.denied.iter().map(|it| (it.command.as_str(), it.purpose)).collect();
    let expected = [
        ("PEXPIRE", Purpose::Locking),
        ("EXISTS", Purpose::Locking),
        ("SCRIPT LOAD", Purpose::Locking),
        ("SET", Purpose::RestartGuard),
        ("ZCOUNT", Purpose::SharedLocks),
        ("DEL", Purpose::SharedLocks),
        ("SET", Purpose::SharedLocks),
        ("GET", Purpose::Semaphores),
        ("SET", Purpose::Semaphores),
        ("SET", Purpose::Hints),
        ("PUBLISH", Purpose::Hints),
        ("CLIENT KILL", Purpose::Reconnecting),
        ("SCAN", Purpose::Listing),
        ("CONFIG GET", Purpose::Durability),
        ("SUBSCRIBE", Purpose::Hints),
    ];
    assert_eq!(denied, expected, "the key of a name is the user's own matter");
    assert_eq!(facts.denied[1].on.as_deref(), Some("quorlock:waiting"));
    assert_eq!(facts.denied[3].on.as_deref(), Some("quorlock:epoch"));
    assert!(facts.denied.iter().all(|denial| denial.cause.kind() == "no_permission"));
    assert_eq!((facts.user.as_deref(), facts.recall), (Some("app"), Recall::Unknown));
}

#[tokio::test]
async fn a_server_that_is_full_is_told_before_a_lock_fails() {
    let one = Server::start();
    one.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let examined = examine([one.url()]).await;
    let facts = server(&examined[0]);
    assert_eq!(facts.refusal.as_ref().map(|cause| cause.kind()), Some("out_of_memory"));
    assert!(facts.denied.is_empty(), "nothing is denied to us alone");
}

#[tokio::test]
async fn servers_that_do_not_answer_cost_one_connect_timeout_and_each_cause_is_told() {
    let (stopped, locked) = (Server::start(), Server::builder().password("right").start());
    stopped.pause();
    let wrong = format!("redis://:wrong@127.0.0.1:{}", locked.port());
    let urls = [stopped.url(), wrong, "redis://127.0.0.1:1".to_owned()];
    let locker = Locker::builder().nodes(urls).connect_timeout(Duration::from_millis(500)).build().unwrap();
    let start = Instant::now();
    let examined = locker.examine().await;
    assert!(start.elapsed() < secs(2), "{:?}", start.elapsed());
    let kinds: Vec<_> = examined.iter().map(|one| one.found.as_ref().unwrap_err().kind()).collect();
    assert_eq!(kinds, ["timeout", "no_auth", "unreachable"]);
    let json = serde_json::to_value(&examined[1]).unwrap();
    assert_eq!(
        (&json["found"]["kind"], &json["found"]["error"]["kind"]),
        (&"error".into(), &"no_auth".into())
    );
    stopped.resume();
}

#[tokio::test]
async fn the_fast_way_to_release_is_told_where_a_server_has_one() {
    if !Binary::Valkey.is_here() {
        return;
    }
    let one = Server::builder().binary(Binary::Valkey).start();
    let examined = examine([one.url()]).await;
    let facts = server(&examined[0]);
    assert!(facts.version.starts_with("valkey "));
    let major: u32 = facts.version["valkey ".len()..].split('.').next().unwrap().parse().unwrap();
    assert_eq!(facts.fast_release.is_some(), major >= 9, "{facts:?}");
}

#[test]
fn a_directory_and_the_memory_of_a_process_are_examined_by_blocking_code() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file:{}", dir.path().display());
    let locker = Locker::builder().nodes([url]).build_blocking().unwrap();
    let examined = locker.examine();
    let Ok(Facts::Directory(facts)) = &examined[0].found else { panic!("{examined:?}") };
    assert_eq!(facts.path, dir.path().canonicalize().unwrap().display().to_string());
    assert!(facts.free_bytes.is_some() && facts.sync > Duration::ZERO, "{facts:?}");
    assert_eq!(facts.file_system.is_some(), cfg!(target_os = "linux"));
    assert_eq!(dir.path().read_dir().unwrap().count(), 0, "nothing stays");
    std::fs::remove_dir(dir.path()).unwrap();
    assert!(locker.examine()[0].found.is_err(), "a directory that is gone is no node");
    let memory = Locker::builder().nodes(["memory:"]).build_blocking().unwrap();
    assert!(matches!(memory.examine()[0].found, Ok(Facts::Process)));
}
