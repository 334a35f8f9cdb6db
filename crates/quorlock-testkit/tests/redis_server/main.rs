//! The simulated server against real ones: the same bytes get the same answers.

#![allow(clippy::unwrap_used)]

mod faults;
mod link;
mod memory;
mod pair;
mod resp;
mod sequences;
mod shared_sequences;
mod speed;

use pair::{Pair, Varies};
use quorlock_testkit::Binary;

/// Sequences for each kind of server, of about 60 commands each.
const SEQUENCES: u64 = 250;

fn run_sequences(binary: Binary) {
    let Some(mut pair) = Pair::start(binary) else { return };
    for seed in 0..SEQUENCES {
        println!("sequence {seed}");
        sequences::run(&mut pair, seed);
    }
}

/// Goal: what the simulator proves about the shipped link holds on Redis.
#[test]
fn any_sequence_is_answered_as_redis_answers_it() {
    run_sequences(Binary::Redis);
}

/// Goal: the same for Valkey.
#[test]
fn any_sequence_is_answered_as_valkey_answers_it() {
    run_sequences(Binary::Valkey);
}

fn close_alike(binary: Binary) {
    let Some(mut pair) = Pair::start(binary) else { return };
    for bytes in [
        "*1\r\n+a\r\n",
        "*x\r\n",
        "*1\r\n$-1\r\n",
        "*2147483648\r\n",
        "*1\r\n$4\r\nPING\r\nset k \"a\r\n",
        "*1\r\n$4\r\nQUIT\r\n",
    ] {
        pair.reset();
        let link = pair.connect();
        pair.exchange(link, &[bytes.as_bytes()], Varies::Nothing);
        pair.assert_closed(link);
    }
    pair.reset();
    let link = pair.connect();
    for bytes in ["*0\r\n", "PING\r\n", "set k \"a b\"\r\n", "\r\n", "GET k\r\n", "*-1\r\nPING\r\n"] {
        pair.exchange(link, &[bytes.as_bytes()], Varies::Nothing);
    }
}

#[test]
fn a_broken_request_closes_the_connection_as_on_redis() {
    close_alike(Binary::Redis);
}

#[test]
fn a_broken_request_closes_the_connection_as_on_valkey() {
    close_alike(Binary::Valkey);
}

#[test]
fn a_client_that_is_killed_by_its_id_is_closed() {
    let Some(mut pair) = Pair::start(Binary::Redis) else { return };
    let (killer, victim) = (pair.connect(), pair.connect());
    let (real, simulated) = pair.ids(victim);
    let command = |id: u64| {
        let words = ["CLIENT", "KILL", "ID", &id.to_string()].map(|word| word.as_bytes().to_vec());
        resp::encode(&words)
    };
    pair.exchange_each(killer, &command(real), &command(simulated));
    pair.assert_closed(victim);
    let (real, simulated) = pair.ids(killer);
    pair.exchange_each(killer, &command(real), &command(simulated));
    pair.assert_nothing_more_on(killer);
}
