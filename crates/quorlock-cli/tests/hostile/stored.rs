//! Locks, values and keys that other clients stored, full of hostile text.

use crate::kit::Home;
use crate::session::{Session, Shown};
use crate::{HOSTILE, Leaks};
use quorlock_testkit::{Server, Servers};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const TOKEN: &str = "00112233445566778899aabbccddeeff";
const OTHER: &str = "ffeeddccbbaa99887766554433221100";

/// Stores `value` under `name` as another client would, and lists it.
fn store(server: &Server, name: &str, value: &str) {
    server.cli(&["SET", name, value, "PX", "600000"]);
    server.cli(&["ZADD", &format!("quorlock:fence:{name}"), "5", "f"]);
}

/// A server with a hostile lock `stolen`, a hostile value `foreign`, and hostile keys.
fn hostile_server() -> Servers {
    let servers = Servers::start(1);
    let lock = format!("{TOKEN} 1763240000000000 mallory@{HOSTILE} 7 1763240000000000 why {HOSTILE}");
    store(&servers[0], "stolen", &lock);
    store(&servers[0], "taken", &lock);
    store(&servers[0], "foreign", HOSTILE);
    store(&servers[0], "hidden", "\u{202e}\u{2028}\u{1b}[2J");
    store(&servers[0], &format!("key{HOSTILE}"), &lock);
    store(&servers[0], "key\u{202e}bidi", &lock);
    servers
}

#[test]
fn stored_values_cannot_forge_output() {
    let servers = hostile_server();
    let home = Home::on(&servers);
    let mut leaks = Leaks::default();
    let table: [(&[&str], &str); 22] = [
        (&["run", "stolen", "--wait", "300ms", "--", "true"], "FORGED"),
        (&["run", "stolen", "--wait", "300ms", "--json", "--", "true"], "FORGED"),
        (&["run", "stolen", "--skip", "--", "true"], ""),
        (&["run", "foreign", "--wait", "300ms", "--", "true"], "another program"),
        (&["acquire", "stolen", "--wait", "300ms"], "FORGED"),
        (&["acquire", "stolen", "--wait", "300ms", "--json"], "FORGED"),
        (&["acquire", "foreign", "--no-wait"], "another program"),
        (&["extend", "stolen", "--token", TOKEN], ""),
        (&["extend", "stolen", "--token", OTHER], "stolen"),
        (&["release", "stolen", "--token", OTHER], "stolen"),
        (&["status"], "mallory"),
        (&["status", "--json"], "FORGED"),
        (&["status", "stolen", "--show-token"], "FORGED"),
        (&["status", "stolen", "--json"], "FORGED"),
        (&["status", "foreign"], "another program"),
        (&["status", "hidden", "--json"], "foreign"),
        (&["force-release", "stolen", "--token", OTHER, "--yes"], "FORGED"),
        (&["force-release", "taken", "--token", TOKEN, "--yes"], "FORGED"),
        (&["doctor"], "can vote"),
        (&["doctor", "--json"], "can_vote"),
        (&["init", "--yes"], "can vote"),
        (&["config", "show"], "nodes"),
    ];
    for (args, expected) in table {
        leaks.note(&Session::run(&home, args), expected);
    }
    leaks.note(&asked_for_stolen(&home), "FORGED");
    for args in [&["watch"][..], &["watch", "stolen"], &["watch", "--json"]] {
        let mut session = Session::start(&home, args);
        // Tables cut long values.
        session.until(&["mallory"]);
        session.signal(Signal::INT);
        leaks.note(&session.end(), "mallory");
    }
    leaks.assert_none();
}

/// `force-release` asks before it takes a lock away.
fn asked_for_stolen(home: &Home) -> Shown {
    let mut session = Session::start(home, &["force-release", "stolen", "--token", TOKEN]);
    session.until(&["[y/N] "]);
    session.types("n\n");
    session.end()
}

#[test]
fn a_release_by_token_compares_what_is_stored_and_not_what_is_shown() {
    let servers = hostile_server();
    let home = Home::on(&servers);
    home.run(&["extend", "stolen", "--token", TOKEN]).exits(0);
    home.run(&["release", "stolen", "--token", TOKEN]).exits(0);
    assert_eq!(servers[0].cli(&["EXISTS", "stolen"]), "0");
}

/// The body of the sidecar's answer.
fn ask(address: &str, request: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = "host: localhost\r\nconnection: close\r\ncontent-type: application/json";
    let length = body.len();
    write!(stream, "{request} HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_sidecar_neither_logs_nor_answers_hostile_text() {
    let servers = hostile_server();
    let home = Home::on(&servers);
    let mut sidecar = Session::start(&home, &["serve", "--listen", "127.0.0.1:0", "--verbose"]);
    sidecar.until(&["listening on http://", "error"]);
    sidecar.until(&["\n"]);
    let text = sidecar.text();
    let address = text.split_once("http://").unwrap().1.split_whitespace().next().unwrap().to_owned();
    let wish = serde_json::json!({ "owner": HOSTILE, "reason": HOSTILE, "wait_ms": 300 }).to_string();
    let mut leaks = Leaks::default();
    for (request, body, expected) in [
        ("POST /v1/locks/stolen/acquire", wish.as_str(), "FORGED"),
        ("POST /v1/locks/mine/acquire", &wish, "token"),
        ("POST /v1/locks/a%E2%80%AEb/acquire", &wish, "bad_name"),
        ("POST /v1/locks/a%0AFORGED/acquire", &wish, "bad_name"),
        ("GET /v1/locks/stolen", "", "FORGED"),
        ("GET /v1/locks/mine", "", "FORGED"),
        ("GET /v1/locks/foreign", "", "foreign"),
        ("GET /v1/locks", "", "FORGED"),
        ("GET /v1/overview", "", "FORGED"),
    ] {
        let text = ask(&address, request, body);
        leaks.note(&Shown { command: request.to_owned(), text }, expected);
    }
    sidecar.until(&["gave up"]);
    sidecar.signal(Signal::TERM);
    leaks.note(&sidecar.end(), "mallory@x");
    leaks.assert_none();
}
