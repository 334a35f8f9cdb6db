//! Refusals of a server in each bad condition.

use crate::pair::{Pair, Varies};
use crate::resp::{Resp, encode};
use quorlock::SystemClock;
use quorlock_testkit::simulator::redis_server::{RedisServer, Version};
use quorlock_testkit::{Binary, until_blocking};
use std::sync::Arc;
use std::time::Duration;

const SET: &str = "redis.call('SET', KEYS[1], 'v')";
const SET_CAUGHT: &str = "return redis.pcall('SET', KEYS[1], 'v')";
const SET_AFTER_DEL: &str = "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], 'v')";

/// Commands that writes, reads, scripts and hints are made of.
const COMMANDS: [&[&str]; 21] = [
    &["SET", "a", "v", "NX", "PX", "1000"],
    &["ZADD", "quorlock:fence:{a}", "GT", "CH", "5", "f"],
    &["GET", "a"],
    &["GET", "key"],
    &["DEL", "key", "a"],
    &["PEXPIRE", "a", "1000"],
    &["EXISTS", "quorlock:waiting"],
    &["EVAL", SET, "1", "a"],
    &["EVAL", SET_CAUGHT, "1", "a"],
    &["EVAL", SET_AFTER_DEL, "1", "a"],
    &["EVAL", "return redis.call('GET', 'key')", "0"],
    &["EVAL", "return redis.pcall('PUBLISH', 'channel', 'x')", "0"],
    &["EVAL", "return 1", "1", "key"],
    &["EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"],
    &["SCRIPT", "LOAD", "return 1"],
    &["PUBLISH", "channel", "x"],
    &["PUBSUB", "NUMSUB", "channel"],
    &["PING"],
    &["SELECT", "0"],
    &["GET"],
    &["NONE"],
];

/// Puts both servers into a condition and compares their answers to all commands.
fn compare(binary: Binary, spoil: impl FnOnce(&mut Pair)) {
    let Some(mut pair) = Pair::start(binary) else { return };
    let link = pair.connect();
    pair.exchange(link, &[&encode(&["HELLO", "3"].map(|word| word.as_bytes().to_vec()))], Varies::Id);
    spoil(&mut pair);
    for command in COMMANDS {
        pair.same(link, command);
    }
}

fn compare_both(spoil: impl Fn(&mut Pair)) {
    compare(Binary::Redis, &spoil);
    compare(Binary::Valkey, &spoil);
}

#[test]
fn a_healthy_server_accepts_all_that_a_bad_one_refuses() {
    compare_both(|_| {});
}

#[test]
fn a_full_server_refuses_what_needs_memory() {
    compare_both(|pair| {
        pair.real.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        pair.simulated.set_out_of_memory(true);
    });
}

#[test]
fn a_replica_refuses_writes() {
    compare_both(|pair| {
        pair.real.cli(&["REPLICAOF", "127.0.0.1", "1"]);
        pair.simulated.become_replica();
    });
}

#[test]
fn a_promoted_replica_says_that_it_was_one() {
    let Some(mut pair) = Pair::start(Binary::Redis) else { return };
    let link = pair.connect();
    pair.real.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    pair.real.cli(&["REPLICAOF", "NO", "ONE"]);
    pair.simulated.become_replica();
    pair.simulated.become_primary();
    let script = "return string.match(redis.call('INFO', 'replication'), 'second_repl_offset:(%d)')";
    pair.same(link, &["EVAL", script, "0"]);
    COMMANDS.iter().for_each(|command| pair.same(link, command));
}

#[test]
fn revoked_rights_are_named() {
    for (command, revoked) in [("-set", "set"), ("-script|load", "script|load"), ("-pubsub", "pubsub")] {
        compare_both(|pair| {
            pair.real.cli(&["ACL", "SETUSER", "default", command]);
            pair.simulated.revoke_command(revoked);
        });
    }
    compare_both(|pair| {
        pair.real.cli(&["ACL", "SETUSER", "default", "resetkeys", "~a*", "~quorlock*"]);
        pair.simulated.revoke_keys("[^aq]*");
    });
    compare_both(|pair| {
        pair.real.cli(&["ACL", "SETUSER", "default", "resetchannels", "&other"]);
        pair.simulated.revoke_channels("chan*");
    });
}

#[test]
fn a_script_of_another_client_that_runs_too_long_blocks_all() {
    let occupy = |pair: &mut Pair| {
        pair.real.cli(&["CONFIG", "SET", "busy-reply-threshold", "1"]);
        let mut other = pair.real.connect().unwrap();
        // It ends with the server.
        std::thread::spawn(move || drop(other.ask(&["EVAL", "while true do end", "0"])));
        let is_busy = || {
            pair.real.connect().is_ok_and(|mut client| {
                client.ask(&["PING"]).is_ok_and(|reply| reply.to_string().starts_with("BUSY"))
            })
        };
        until_blocking("the script runs", Duration::from_secs(10), is_busy);
        pair.simulated.set_busy(true);
    };
    compare(Binary::Redis, occupy);
    compare(Binary::Valkey, occupy);
}

#[test]
fn a_client_without_the_password_gets_nothing() {
    for binary in [Binary::Redis, Binary::Valkey] {
        let Some(mut pair) = Pair::start(binary) else { continue };
        pair.real.cli(&["ACL", "SETUSER", "default", "resetpass", ">secret"]);
        pair.simulated.set_password(Some("secret"));
        let link = pair.connect();
        COMMANDS.iter().for_each(|command| pair.same(link, command));
        pair.same(link, &["HELLO", "3"]);
        pair.same(link, &["HELLO", "3", "AUTH", "default", "wrong"]);
        pair.same(link, &["AUTH", "wrong"]);
        pair.same(link, &["AUTH", "a", "b", "c"]);
        pair.same(link, &["AUTH", "secret"]);
        COMMANDS.iter().for_each(|command| pair.same(link, command));
    }
}

/// The answer of a simulated server to one command of a new client.
fn answer(server: &mut RedisServer, words: &[&str]) -> String {
    let connection = server.connect();
    let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    server.receive(connection, &encode(&words));
    let output = server.take_output(connection);
    server.disconnect(connection);
    format!("{:?}", Resp::read(&output).unwrap().0)
}

#[test]
fn a_server_that_loads_answers_only_what_needs_no_data() {
    for (version, title) in [(Version::Redis7, "Redis"), (Version::Valkey9, "Valkey")] {
        let mut server = RedisServer::new(version, Arc::new(SystemClock), 1);
        server.set_loading(true);
        let loading = format!("-LOADING {title} is loading the dataset in memory");
        for command in
            [&["GET", "a"][..], &["PING"], &["EVAL", "return 1", "0"], &["SCRIPT", "LOAD", "return 1"]]
        {
            assert_eq!(answer(&mut server, command), loading);
        }
        assert!(answer(&mut server, &["INFO", "persistence"]).contains("loading:1"));
        assert_eq!(answer(&mut server, &["SELECT", "1"]), "+OK");
    }
}

/// The texts that quorlock's own tests have from servers of version 6.2.
#[test]
fn redis_6_2_wraps_the_errors_of_scripts() {
    let mut server = RedisServer::new(Version::Redis62, Arc::new(SystemClock), 1);
    assert_eq!(answer(&mut server, &["LPUSH", "list", "a"]), ":1");
    let raised = answer(&mut server, &["EVAL", "return redis.call('GET', 'list')", "0"]);
    assert!(raised.starts_with("-ERR Error running script (call to f_"), "{raised}");
    assert!(raised.contains("): @user_script:1: WRONGTYPE Operation against"), "{raised}");
    assert_eq!(answer(&mut server, &["EVAL", "return redis.error_reply('NOEPOCH')", "0"]), "-NOEPOCH");
    assert!(answer(&mut server, &["PEXPIRE", "a", "5", "NX"]).starts_with("-ERR wrong number"));
    server.set_out_of_memory(true);
    let raised = answer(&mut server, &["EVAL", SET, "1", "a"]);
    assert!(raised.contains("@user_script: 1: -OOM command not allowed"), "{raised}");
    assert_eq!(
        answer(&mut server, &["DELEX", "a"]),
        "-ERR unknown command `DELEX`, with args beginning with: `a`, "
    );
}

#[test]
fn redis_8_4_deletes_by_value() {
    let mut server = RedisServer::new(Version::Redis84, Arc::new(SystemClock), 1);
    assert_eq!(answer(&mut server, &["SET", "a", "mine"]), "+OK");
    assert_eq!(answer(&mut server, &["DELEX", "a", "IFEQ", "other"]), ":0");
    assert_eq!(answer(&mut server, &["DELEX", "a", "IFEQ", "mine"]), ":1");
    assert_eq!(answer(&mut server, &["DELEX", "a", "IFEQ", "mine"]), ":0");
    let info = answer(&mut server, &["COMMAND", "INFO", "DELEX", "DELIFEQ"]);
    assert!(info.starts_with("*[*[$\"delex\"") && info.ends_with("$-1]"), "{info}");
}
