//! What a simulated server keeps and loses.

use crate::resp::{Resp, encode};
use quorlock::{Clock, Moment};
use quorlock_testkit::simulator::redis_server::{OriginCommand, RedisServer, Version};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// A clock that the test sets.
#[derive(Debug, Default)]
struct SetClock(Mutex<Duration>);

impl SetClock {
    fn advance(&self, span: Duration) {
        *self.0.lock().unwrap() += span;
    }
}

impl Clock for SetClock {
    fn now(&self) -> Moment {
        Moment::from_boot(*self.0.lock().unwrap() + Duration::from_secs(1_000))
    }

    fn wall_time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) + *self.0.lock().unwrap()
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn start() -> (RedisServer, Arc<SetClock>) {
    let clock = Arc::new(SetClock::default());
    (RedisServer::new(Version::Redis7, clock.clone(), 7), clock)
}

fn send(server: &mut RedisServer, connection: u64, words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    server.receive(connection, &encode(&words));
    let output = server.take_output(connection);
    Resp::read(&output).map_or_else(String::new, |(reply, _)| format!("{reply:?}"))
}

fn ask(server: &mut RedisServer, words: &[&str]) -> String {
    let connection = server.connect();
    let reply = send(server, connection, words);
    server.disconnect(connection);
    reply
}

#[test]
fn a_server_can_move_to_another_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<RedisServer>();
}

#[test]
fn a_key_is_gone_after_its_expiry_and_not_at_it() {
    let (mut server, clock) = start();
    assert_eq!(ask(&mut server, &["SET", "a", "v", "PX", "1000"]), "+OK");
    clock.advance(SECOND);
    assert_eq!(ask(&mut server, &["GET", "a"]), "$\"v\"");
    assert_eq!(ask(&mut server, &["PTTL", "a"]), ":0");
    clock.advance(Duration::from_millis(1));
    assert_eq!(server.stored_texts().count(), 0);
    assert_eq!(ask(&mut server, &["GET", "a"]), "$-1");
}

#[test]
fn a_restart_begins_a_run_without_scripts_and_connections() {
    let (mut server, _) = start();
    let connection = server.connect();
    assert_eq!(send(&mut server, connection, &["SET", "a", "v"]), "+OK");
    assert!(send(&mut server, connection, &["SCRIPT", "LOAD", "return 1"]).contains("e0e1f9fa"));
    let run = server.run_id().to_owned();
    server.restart();
    assert_ne!(server.run_id(), run);
    assert_eq!(server.run_id().len(), 40);
    assert_eq!(server.take_closed(), [connection]);
    assert_eq!(send(&mut server, connection, &["GET", "a"]), "", "the connection has ended");
    assert_eq!(server.connect(), 1, "connections are counted from the start of a run");
    assert_eq!(ask(&mut server, &["GET", "a"]), "$\"v\"");
    let evalsha = ["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"];
    assert!(ask(&mut server, &evalsha).starts_with("-NOSCRIPT"));
    server.restart_empty();
    assert_eq!(ask(&mut server, &["GET", "a"]), "$-1");
}

#[test]
fn a_lost_tail_takes_back_exactly_the_writes_since_a_moment() {
    let (mut server, clock) = start();
    ask(&mut server, &["SET", "kept", "old"]);
    ask(&mut server, &["SET", "deleted", "v", "PX", "60000"]);
    ask(&mut server, &["ZADD", "quorlock:fence:{a}", "5", "f"]);
    clock.advance(SECOND);
    let moment = clock.now();
    ask(&mut server, &["SET", "kept", "new"]);
    ask(&mut server, &["DEL", "deleted"]);
    ask(&mut server, &["SET", "created", "v"]);
    ask(&mut server, &["ZADD", "quorlock:fence:{a}", "9", "f"]);
    assert_eq!(server.fence_counter(0, "a"), Some(9.0));
    server.restart_without_writes_since(moment);
    assert_eq!(ask(&mut server, &["GET", "kept"]), "$\"old\"");
    assert_eq!(ask(&mut server, &["PTTL", "deleted"]), ":59000");
    assert_eq!(ask(&mut server, &["GET", "created"]), "$-1");
    assert_eq!(server.fence_counter(0, "a"), Some(5.0));
}

#[test]
fn a_failover_loses_what_the_replica_had_not_got() {
    let (mut server, clock) = start();
    ask(&mut server, &["SET", "old", "v"]);
    clock.advance(SECOND);
    ask(&mut server, &["SET", "new", "v"]);
    let run = server.run_id().to_owned();
    server.fail_over(Duration::from_millis(500));
    assert_ne!(server.run_id(), run);
    assert_eq!(ask(&mut server, &["EXISTS", "old", "new"]), ":1");
    assert!(ask(&mut server, &["INFO", "replication"]).contains("second_repl_offset:1"));
}

#[test]
fn a_revert_repeats_the_run_id_and_the_connection_ids() {
    let (mut server, _) = start();
    let first = server.connect();
    send(&mut server, first, &["SET", "a", "before"]);
    let (snapshot, run) = (server.snapshot(), server.run_id().to_owned());
    let second = server.connect();
    send(&mut server, second, &["SET", "a", "after"]);
    server.restart();
    server.take_closed();
    server.revert(&snapshot);
    assert_eq!(server.run_id(), run);
    assert_eq!(server.connect(), second);
    assert_eq!(send(&mut server, second, &["GET", "a"]), "$\"before\"");
}

#[test]
fn eviction_takes_names_and_spares_our_own_keys() {
    let (mut server, _) = start();
    ask(&mut server, &["SET", "quorlock:epoch", "v"]);
    ask(&mut server, &["SET", "a", "v"]);
    ask(&mut server, &["SET", "b", "v"]);
    assert_eq!(server.evict(5), Some((0, b"b".to_vec())));
    assert_eq!(server.evict(5), Some((0, b"a".to_vec())));
    assert_eq!(server.evict(5), None);
    assert!(server.drop_key(0, b"quorlock:epoch"));
}

#[test]
fn a_key_remembers_the_write_that_created_it() {
    let (mut server, _) = start();
    let connection = server.connect();
    send(&mut server, connection, &["SET", "voted", "v", "NX", "PX", "1000"]);
    let other = server.connect();
    send(&mut server, other, &["SET", "voted", "w", "XX", "KEEPTTL"]);
    send(&mut server, other, &["EVAL", "redis.call('SET', 'scripted', 'v', 'NX')", "0"]);
    send(&mut server, other, &["APPEND", "other", "v"]);
    let stored: Vec<_> =
        server.stored_texts().map(|text| (text.key, text.value, text.origin.clone())).collect();
    assert_eq!(stored[0].2.command, OriginCommand::Other);
    assert!(matches!(&stored[1].2.command, OriginCommand::Script(hash) if hash.len() == 40));
    assert_eq!((stored[2].0, stored[2].1), (&b"voted"[..], &b"w"[..]));
    assert_eq!((stored[2].2.connection, &stored[2].2.command), (connection, &OriginCommand::Set));
}

#[test]
fn a_bug_in_a_script_keeps_its_hash_and_is_counted() {
    let (mut server, _) = start();
    let (script, hash) = ("return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    server.replace_in_scripts("return 1", "return 2");
    assert_eq!(server.replaced_scripts(), 0);
    assert_eq!(ask(&mut server, &["SCRIPT", "LOAD", script]), format!("${hash:?}"));
    assert_eq!(server.replaced_scripts(), 1);
    assert_eq!(ask(&mut server, &["EVALSHA", hash, "0"]), ":2");
    let (mut other, _) = start();
    assert_eq!(ask(&mut other, &["EVAL", script, "0"]), ":1", "other servers of the thread are not changed");
}
