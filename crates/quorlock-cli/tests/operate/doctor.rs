//! What the doctor finds in nodes that are set up well, badly, or not at all.

use crate::terminal::Terminal;
use crate::{ask, finding, findings, home, init, troubles};
use quorlock_testkit::{Consul, Etcd, Postgres, Server, Servers, ZooKeeper, until_blocking};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

#[test]
fn five_good_servers_are_healthy() {
    let (home, servers) = (home(), Servers::start(5));
    let urls = servers.urls();
    init(&home, &urls);
    let report = ask(&home, &urls, &["doctor"]).exits(0).json();
    assert_eq!(troubles(&report), [""; 0], "{report:#}");
    assert_eq!((&report["can_vote"], &report["may_fail"]), (&5.into(), &2.into()));
    let node = &report["nodes"][0];
    assert_eq!((&node["state"], &node["can_vote"]), (&"votes".into(), &true.into()));
    assert!(node["found"]["version"].as_str().unwrap().starts_with("redis "), "{node}");
    assert!(node["found"]["round_trip_us"].is_u64(), "{node}");
    // The cost of a restart is one finding for all nodes, and only a note.
    let forgets = finding(&report, "forgets");
    assert_eq!((&forgets["severity"], forgets["nodes"].as_array().unwrap().len()), (&"note".into(), 5));
    until_blocking("no round trip is slow", SOON, || {
        let report = ask(&home, &urls, &["doctor", "--strict"]);
        report.code == Some(0)
            && report.json()["verdict"] == "healthy: 5 of 5 nodes can vote; 2 may fail"
            && report.json()["status"] == "healthy"
    });
}

#[test]
fn people_get_a_table_the_findings_and_a_verdict_on_the_last_line() {
    let (home, servers) = (home(), Servers::start(3));
    init(&home, &servers.urls());
    let nodes = servers.urls().join(",");
    let report = home.run(&["doctor", "--nodes", &nodes]).text();
    assert!(report.starts_with("NODE"), "{report}");
    assert!(report.contains("\nnote [forgets] all nodes: ") && report.contains("\n  why  "), "{report}");
    assert!(report.contains("\n  do   ") && report.contains("\nttl: 30s suits work"), "{report}");
    assert!(report.lines().last().unwrap().contains("3 of 3 nodes can vote; 1 may fail"), "{report}");
    assert!(!report.contains('\u{1b}'), "no colours in a pipe: {report}");
}

#[test]
fn two_of_five_may_be_down_but_not_three() {
    let (home, mut servers) = (home(), Servers::start(5));
    let urls = servers.urls();
    init(&home, &urls);
    servers[0].kill();
    servers[1].kill();
    let report = ask(&home, &urls, &["doctor"]).exits(0).json();
    assert_eq!(troubles(&report), ["unreachable", "no-spare"], "{report:#}");
    assert_eq!(finding(&report, "unreachable")["nodes"].as_array().unwrap().len(), 2);
    assert_eq!((&report["can_vote"], &report["may_fail"]), (&3.into(), &0.into()));
    ask(&home, &urls, &["doctor", "--strict"]).exits(1);

    servers[2].kill();
    let report = ask(&home, &urls, &["doctor"]).exits(69).json();
    assert_eq!((&report["status"], &report["exit_code"]), (&"no_quorum".into(), &69.into()));
    assert!(troubles(&report).contains(&"no-quorum"), "{report:#}");
    ask(&home, &urls, &["doctor", "--strict"]).exits(69);
    let text = home.run(&["doctor", "--nodes", &urls.join(",")]).exits(69).out;
    assert!(text.ends_with("no quorum: 2 of 5 nodes can vote, 3 needed\n"), "{text}");
}

#[test]
fn servers_that_lose_locks_are_refused_with_what_to_do() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(primary.port()).start();
    let cluster = Server::builder().cluster().start();
    let evicting = Server::builder().maxmemory("100mb", "allkeys-lru").start();
    let others = Servers::start(3);
    let home = home();
    init(&home, &others.urls());
    let mut urls = others.urls();
    urls.extend([replica.url(), evicting.url()]);
    let report = ask(&home, &urls, &["doctor"]).exits(0).json();
    assert_eq!(troubles(&report), ["replica", "evicts", "no-spare"], "{report:#}");
    let evicts = finding(&report, "evicts");
    assert!(evicts["what"].as_str().unwrap().contains("allkeys-lru"), "{evicts}");
    assert!(evicts["do"].as_str().unwrap().contains("maxmemory-policy noeviction"), "{evicts}");
    assert_eq!(report["nodes"][3]["state"], "refused");
    let report = ask(&home, &[cluster.url()], &["doctor"]).exits(69).json();
    assert!(troubles(&report).contains(&"cluster"), "{report:#}");
    let report = ask(&home, &[primary.url()], &["doctor"]).exits(0).json();
    assert_eq!(finding(&report, "replicas")["severity"], "warning", "{report:#}");
}

#[test]
fn a_server_without_memory_left_is_not_taken_for_one_that_denies_us_rights() {
    let full = Server::builder().maxmemory("1mb", "noeviction").start();
    let report = ask(&home(), &[full.url()], &["doctor"]).exits(69).json();
    assert!(finding(&report, "out-of-memory")["do"].as_str().unwrap().contains("memory"), "{report:#}");
    assert!(!troubles(&report).contains(&"permissions"), "{report:#}");
}

#[test]
fn one_server_under_two_addresses_is_found() {
    let (home, servers) = (home(), Servers::start(2));
    let mut urls = servers.urls();
    init(&home, &urls);
    urls.push(format!("redis://localhost:{}", servers[0].port()));
    let report = ask(&home, &urls, &["doctor"]).exits(0).json();
    assert_eq!(troubles(&report), ["same-server", "no-spare"], "{report:#}");
    let twin = finding(&report, "same-server");
    assert!(twin["what"].as_str().unwrap().contains(&servers[0].port().to_string()), "{twin}");
}

#[test]
fn an_even_number_of_nodes_is_a_warning() {
    let (home, servers) = (home(), Servers::start(4));
    init(&home, &servers.urls());
    let report = ask(&home, &servers.urls(), &["doctor"]).exits(0).json();
    assert_eq!(troubles(&report), ["even-count"], "{report:#}");
    assert_eq!(finding(&report, "even-count")["do"], "use 3 nodes, or 5");
    ask(&home, &servers.urls(), &["doctor", "--strict"]).exits(1);
}

#[test]
fn each_right_that_is_missing_is_named_with_the_line_that_grants_it() {
    let home = home();
    let servers = [
        ("user app on >pw ~* &* +@all -pexpire", "permissions", "+pexpire"),
        ("user app on >pw ~* &* +@all -publish", "permissions-hints", "+publish"),
        ("user app on >pw ~* &* +@all -scan", "permissions-list", "+scan"),
        ("user app on >pw ~* &* +@all -zcount", "permissions-shared", "+zcount"),
        ("user app on >pw ~* &* +@all -hset", "permissions-shared", "+hset"),
        ("user app on >pw ~* &quorlock:other +@all", "permissions-hints", "&quorlock:free:*"),
        ("user app on >pw ~app:* ~quorlock:fence:* &* +@all", "permissions", "~quorlock:*"),
        ("user app on >pw ~* &* +@all -eval", "permissions", "+eval"),
    ];
    for (acl, code, grant) in servers {
        let server = Server::builder().acl(acl).start();
        let url = format!("redis://app:pw@127.0.0.1:{}", server.port());
        let exit = if code == "permissions" { 69 } else { 0 };
        let report = ask(&home, &[url], &["doctor"]).exits(exit).json();
        let remedy = finding(&report, code)["do"].as_str().unwrap();
        assert!(remedy.starts_with("ACL SETUSER app ") && remedy.contains(grant), "{remedy}");
    }
    let locked = Server::builder().password("secret").start();
    let url = format!("redis://127.0.0.1:{}", locked.port());
    let report = ask(&home, &[url], &["doctor"]).exits(69).json();
    assert!(troubles(&report).contains(&"no-auth"), "{report:#}");
    let url = format!("redis://:wrong@127.0.0.1:{}", locked.port());
    let text = home.run(&["doctor", "--nodes", &url]).exits(69).out;
    assert!(!text.contains("wrong@"), "a password is never shown: {text}");
}

#[test]
fn the_ttl_is_judged_by_the_time_that_the_work_takes() {
    let (home, server) = (home(), Server::start());
    let report = ask(&home, &[server.url()], &["doctor", "--work", "5s"]).json();
    let advised = report["ttl"]["advised_ms"].as_u64().unwrap();
    assert!((11_000..12_000).contains(&advised), "{report:#}");
    assert!(!troubles(&report).contains(&"short-ttl"), "{report:#}");
    let report = ask(&home, &[server.url()], &["doctor", "--work", "1m"]).json();
    let remedy = finding(&report, "short-ttl")["do"].as_str().unwrap();
    assert!(remedy.contains("ttl = \"2m1s\"") && remedy.contains("longest_ttl"), "{remedy}");
}

#[test]
fn a_directory_is_examined_too() {
    let home = home();
    let report = home.run(&["doctor", "--json"]).exits(0).json();
    let found = &report["nodes"][0]["found"];
    assert_eq!((&found["kind"], &report["nodes"][0]["state"]), (&"directory".into(), &"votes".into()));
    assert!(found["sync_us"].is_u64() && found["file_system"].is_string(), "{report:#}");
    assert!(findings(&report).iter().all(|it| it["code"] == "fences-forgotten"), "{report:#}");
    let text = home.run(&["doctor"]).text();
    assert!(text.starts_with("DIRECTORY") && text.contains("FILE SYSTEM"), "{text}");
    home.run(&["doctor", "--nodes", "file:/proc/none"]).exits(2);
}

#[test]
fn a_configuration_that_cannot_be_used_is_no_finding_but_an_error() {
    let home = home();
    let refused = home.run(&["doctor", "--json", "--nodes", "http://a"]).exits(2).json();
    assert_eq!(refused["error"]["kind"], "config");
}

#[test]
fn there_are_colours_on_a_terminal_unless_they_are_not_wanted() {
    let home = home();
    for is_plain in [false, true] {
        let mut terminal = Terminal::open();
        let mut command = home.command(&["doctor"]);
        command.env("TERM", "xterm").env_remove("NO_COLOR").stdout(terminal.end());
        if is_plain {
            command.env("NO_COLOR", "1");
        }
        let doctor = terminal.start(&mut command);
        let shown = terminal.shows("may fail");
        doctor.end().exits(0);
        assert_eq!(!shown.contains('\u{1b}'), is_plain, "{shown:?}");
    }
}

#[test]
fn an_etcd_cluster_is_one_node_whose_members_are_counted() {
    let (home, mut etcd) = (home(), Etcd::start(3));
    let urls = [etcd.url()];
    let report = ask(&home, &urls, &["doctor", "--node-timeout", "2s"]).exits(0).json();
    let node = &report["nodes"][0];
    assert_eq!((&node["state"], &node["found"]["kind"]), (&"votes".into(), &"store".into()), "{report:#}");
    assert_eq!((&node["found"]["members"], &node["found"]["has_leader"]), (&3.into(), &true.into()));
    assert!(report["verdict"].as_str().unwrap().ends_with("2 of its 3 members must be up"), "{report:#}");
    let text = home.run(&["doctor", "--nodes", &urls[0]]).text();
    assert!(text.contains("MEMBERS") && text.contains("etcd 3."), "{text}");

    let leader = etcd.leader();
    etcd.kill((leader + 1) % 3);
    let report = ask(&home, &urls, &["doctor"]).exits(0).json();
    assert_eq!(troubles(&report), ["silent-member"], "{report:#}");
    etcd.kill(leader);
    until_blocking("the last member sees no leader", SOON, || {
        ask(&home, &urls, &["doctor"]).code == Some(69)
    });
}

#[test]
fn members_of_two_etcd_clusters_in_one_address_are_an_error() {
    let (home, one, other) = (home(), Etcd::start(1), Etcd::start(1));
    let host = other.url().replace("etcd://", "");
    let urls = [format!("{},{host}", one.url())];
    // A loaded machine may be too slow to ask both at first.
    until_blocking("both were asked", SOON, || ask(&home, &urls, &["doctor"]).code == Some(69));
    let report = ask(&home, &urls, &["doctor"]).exits(69).json();
    assert_eq!(troubles(&report)[0], "other-cluster", "{report:#}");
    let what = report["findings"][0]["what"].as_str().unwrap();
    assert!(what.contains(&host) && what.contains("another cluster"), "{report:#}");
}

#[test]
fn postgres_needs_init_and_a_disk_that_is_synced() {
    if !Postgres::is_here() {
        return;
    }
    let (home, postgres) = (home(), Postgres::start());
    let urls = [postgres.url()];
    let report = ask(&home, &urls, &["doctor"]).exits(69).json();
    assert_eq!(troubles(&report)[0], "schema", "{report:#}");
    let refused = ask(&home, &urls, &["run", "job", "--", "true"]).exits(69);
    refused.complains(&["quorlock init"]);

    init(&home, &urls);
    let report = ask(&home, &urls, &["doctor"]).exits(0).json();
    assert_eq!(troubles(&report), [""; 0], "{report:#}");
    let node = &report["nodes"][0];
    assert!(node["found"]["version"].as_str().unwrap().starts_with("postgres "), "{node}");
    ask(&home, &urls, &["run", "job", "--", "true"]).exits(0);

    // Votes wait for the disk all the same.
    postgres.sql("ALTER SYSTEM SET synchronous_commit = off");
    postgres.sql("SELECT pg_reload_conf()");
    let report = ask(&home, &urls, &["doctor"]).exits(0).json();
    assert_eq!(troubles(&report), [""; 0], "{report:#}");
    postgres.sql("ALTER SYSTEM SET fsync = off");
    postgres.sql("SELECT pg_reload_conf()");
    until_blocking("the setting is seen", SOON, || {
        let report = ask(&home, &urls, &["doctor"]).json();
        troubles(&report).contains(&"setting")
    });
}

#[test]
fn a_postgres_standby_is_named_as_one() {
    if !Postgres::is_here() {
        return;
    }
    let (home, postgres) = (home(), Postgres::start());
    let standby = postgres.start_standby();
    init(&home, &[postgres.url()]);
    let report = ask(&home, &[postgres.url()], &["doctor"]).exits(0).json();
    finding(&report, "standbys");
    let report = ask(&home, &[standby.url()], &["doctor"]).exits(69).json();
    assert_eq!(troubles(&report)[0], "standby", "{report:#}");
}

#[test]
fn a_zookeeper_ensemble_and_a_consul_cluster_are_examined() {
    let home = home();
    if ZooKeeper::is_here() {
        let ensemble = ZooKeeper::start(1);
        let report = ask(&home, &[ensemble.url()], &["doctor"]).exits(0).json();
        finding(&report, "single-member");
        ask(&home, &[ensemble.url()], &["run", "job", "--", "true"]).exits(0);
    }
    if Consul::is_here() {
        let cluster = Consul::start(1);
        let report = ask(&home, &[cluster.url()], &["doctor"]).exits(0).json();
        finding(&report, "single-member");
        ask(&home, &[cluster.url()], &["run", "job", "--", "true"]).exits(0);
    }
}
