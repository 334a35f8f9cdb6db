//! Goal: a test server behaves as the tests of the library assume.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use quorlock_testkit::{Binary, Fsync, Reply, Server, Servers, until_blocking};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn a_server_answers_on_its_port_and_is_gone_after_drop() {
    let server = Server::start();
    assert_eq!(server.cli(&["SET", "x", "1"]), "OK");
    assert_eq!(server.cli(&["GET", "x"]), "1");
    assert_eq!(server.ask(&["GET", "y"]), Reply::Nil);
    assert_eq!(server.cli(&["MGET", "x", "y"]), "1\n");
    assert!(server.cli(&["NONSENSE"]).starts_with("ERR"));
    TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let pid = server.pid();
    drop(server);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_restart_forgets() {
    let mut server = Server::start();
    let port = server.port();
    server.cli(&["SET", "x", "1"]);
    server.kill();
    assert!(server.connect().is_err());
    server.restart();
    assert_eq!(server.port(), port);
    assert_eq!(server.cli(&["GET", "x"]), "");
}

#[test]
fn an_append_only_file_survives_a_crash() {
    let mut server = Server::builder().aof(Fsync::Always).start();
    server.cli(&["SET", "x", "1"]);
    server.restart();
    assert_eq!(server.cli(&["GET", "x"]), "1");
    server.flushall();
    assert_eq!(server.cli(&["GET", "x"]), "");
}

#[test]
fn a_server_whose_log_lost_its_tail_starts_without_the_last_writes() {
    for binary in [Binary::Redis, Binary::Valkey].into_iter().filter(|binary| binary.is_here()) {
        // Synced each time, so that both commands are in the file: with `everysec` the server holds
        // back what it has to write while the disk is busy, and answers all the same.
        let mut server = Server::builder().binary(binary).aof(Fsync::Always).start();
        server.cli(&["SET", "x", "1"]);
        server.cli(&["SET", "y", "1"]);
        server.kill();
        assert_eq!(server.cut_aof(5), 5, "the middle of a command");
        server.restart();
        assert_eq!(server.cli(&["GET", "x"]), "1");
        assert_eq!(server.cli(&["GET", "y"]), "");
    }
}

#[test]
fn a_paused_server_executes_what_it_was_sent_when_it_wakes() {
    let server = Server::start();
    let mut connection = server.connect().unwrap();
    server.pause();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| connection.ask(&["SET", "x", "1"]));
        assert!(!asked.is_finished());
        server.resume();
        assert_eq!(asked.join().unwrap().unwrap(), Reply::Text("OK".into()));
    });
}

#[test]
fn passwords_and_users_do_not_lock_the_kit_out() {
    let server = Server::builder().password("secret").acl("user app on >app ~app:* +@read").start();
    assert!(server.url().starts_with("redis://:secret@127.0.0.1:"));
    assert!(server.cli(&["ACL", "LIST"]).contains("user app on"));
    let mut refused = quorlock_testkit::Connection::open(&server.socket()).unwrap();
    let answer = refused.ask(&["GET", "x"]).unwrap();
    assert!(answer.to_string().starts_with("NOAUTH"));
    refused.ask(&["AUTH", "secret"]).unwrap();
    assert_eq!(refused.ask(&["GET", "x"]).unwrap(), Reply::Nil);
}

#[test]
fn tls_is_signed_by_the_authority_the_url_names() {
    let server = Server::builder().tls().start();
    assert!(server.tls_url().starts_with("rediss://localhost:"));
    assert!(server.certs().client_key().is_file());
    let handshake = Command::new("openssl")
        .args(["s_client", "-verify_return_error", "-brief", "-CAfile"])
        .arg(server.certs().ca())
        .args(["-servername", "localhost", "-verify_hostname", "localhost"])
        .args(["-connect", &format!("127.0.0.1:{}", server.tls_port())])
        .stdin(Stdio::null())
        .output();
    match handshake {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => eprintln!("skipped: openssl: {error}"),
    }
}

#[test]
fn a_replica_follows() {
    let primary = Server::builder().password("secret").start();
    let replica = Server::builder().replica_of(primary.port()).start();
    primary.cli(&["SET", "x", "1"]);
    until_blocking("the replica has it", Duration::from_secs(10), || replica.cli(&["GET", "x"]) == "1");
    assert!(replica.cli(&["SET", "x", "2"]).starts_with("READONLY"));
}

#[test]
fn a_cluster_of_one_takes_writes_also_after_a_restart() {
    let mut server = Server::builder().cluster().start();
    assert_eq!(server.cli(&["SET", "x", "1"]), "OK");
    server.restart();
    assert_eq!(server.cli(&["SET", "x", "1"]), "OK");
}

#[test]
fn memory_limits_reach_the_server() {
    let server = Server::builder().maxmemory("3mb", "allkeys-lru").start();
    let policy = server.cli(&["CONFIG", "GET", "maxmemory-policy"]);
    assert_eq!(policy, "maxmemory-policy\nallkeys-lru");
}

#[test]
fn valkey_is_a_server_too() {
    if Binary::Valkey.is_here() {
        let server = Server::builder().binary(Binary::Valkey).start();
        assert!(server.cli(&["INFO", "server"]).contains("valkey_version"));
    }
}

#[test]
fn servers_are_independent() {
    let mut servers = Servers::start(5);
    servers[0].cli(&["SET", "x", "1"]);
    assert_eq!(servers[1].cli(&["GET", "x"]), "");
    servers[2].kill();
    assert_eq!(servers.urls().len(), 5);
    assert_eq!(servers[4].cli(&["PING"]), "PONG");
}

/// Goal: a test run that is killed leaves no server behind. The run is this test itself, started
/// again as a child.
#[test]
fn a_server_dies_with_the_process_that_started_it() {
    const MARK: &str = "QUORLOCK_TEST_VICTIM";
    if let Some(report) = std::env::var_os(MARK) {
        // On a thread that ends: the server must live until the *process* ends.
        let server = std::thread::spawn(Server::start).join().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(server.cli(&["PING"]), "PONG");
        std::fs::write(&report, server.pid().to_string()).unwrap();
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let report = tempfile::NamedTempFile::new().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_server_dies_with_the_process_that_started_it"])
        .env(MARK, report.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let reported = || std::fs::read_to_string(report.path()).unwrap();
    let limit = Duration::from_secs(30);
    until_blocking("the server is up", limit, || !reported().is_empty());
    let server = format!("/proc/{}", reported());
    assert!(Path::new(&server).exists());
    victim.kill().unwrap();
    victim.wait().unwrap();
    until_blocking("the server is gone", limit, || !is_running(&server));
}

/// A killed orphan may stay listed as a zombie until its parent collects it.
fn is_running(process: &str) -> bool {
    std::fs::read_to_string(format!("{process}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
}
