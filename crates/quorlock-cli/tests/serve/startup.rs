//! How it starts, and why it does not.

use crate::client::Sidecar;
use crate::harness::Home;
use quorlock_testkit::Port;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

#[test]
fn it_says_where_it_listens() {
    let home = Home::new();
    let sidecar = Sidecar::start(&home, &[]);
    assert!(sidecar.url.starts_with("http://127.0.0.1:"), "{}", sidecar.url);
    assert_eq!(sidecar.get("/healthz").0, 200);
    let mut printed = home.start(&["serve", "--json", "--listen", "127.0.0.1:0"]);
    let line: serde_json::Value = serde_json::from_str(&printed.answers("\n")).unwrap();
    assert!(line["listening"].as_str().unwrap().starts_with("http://"), "{line}");
}

#[test]
fn an_address_that_is_in_use_is_named() {
    let home = Home::new();
    let port = Port::claim();
    let address = format!("127.0.0.1:{}", port.number());
    let _first = Sidecar::of(home.start(&["serve", "--listen", &address]));
    home.run(&["serve", "--listen", &address]).exits(126).complains(&[&address, "in use"]);
}

#[test]
fn an_address_that_others_can_reach_needs_protection() {
    let home = Home::new();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = home.run(&["serve", "--listen", "127.0.0.1:0", "--listen", address]).exits(2);
        refused.complains(&["can be reached by others", "token file"]);
    }
    let tokens = home.file("tokens");
    fs::write(&tokens, "write:a-long-enough-secret\n").unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    let mut allowed = home.start(&["serve", "--listen", "0.0.0.0:0", "--token-file", "tokens"]);
    allowed.answers("listening on http://0.0.0.0:");
}

#[test]
fn settings_that_cannot_be_used_are_named() {
    let home = Home::new();
    fs::write(home.file("short"), "write:hunter2\n").unwrap();
    fs::write(home.file("empty"), "# none\n").unwrap();
    fs::write(home.file("noise"), "noise").unwrap();
    fs::write(home.file("scopeless"), "hunter2-hunter2-hunter2\n").unwrap();
    let table: [(&[&str], &[&str]); 10] = [
        (&["--token-file", "missing"], &["token file `missing`", "cannot be read"]),
        (&["--token-file", "short"], &["line 1", "16 characters"]),
        (&["--token-file", "scopeless"], &["line 1", "read, lock or write"]),
        (&["--origin", "locks.example.com"], &["locks.example.com", "https://HOST"]),
        (&["--token-file", "empty"], &["holds no secret"]),
        (&["--tls-cert", "missing.pem", "--tls-key", "missing.key"], &["certificate `missing.pem`"]),
        (&["--tls-cert", "noise", "--tls-key", "noise"], &["certificate `noise`"]),
        (&["--listen", "nonsense"], &["nonsense", "unix:PATH"]),
        (&["--tls-cert", "cert.pem"], &["--tls-key"]),
        (&["--ttl", "1ms"], &["ttl"]),
    ];
    for (args, wanted) in table {
        let refused = home.run(&[&["serve", "--listen", "127.0.0.1:0"], args].concat()).exits(2);
        refused.complains(wanted);
        assert!(!refused.err.contains("hunter2"), "{refused:?}");
    }
}

#[test]
fn a_socket_is_for_its_owner_and_replaces_one_that_is_left_over() {
    let home = Home::new();
    let path = home.file("s");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "left over");
    let address = format!("unix:{}", path.display());
    let sidecar = Sidecar::of(home.start(&["serve", "--listen", &address]));
    assert_eq!(sidecar.url, address);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    home.run(&["serve", "--listen", &address]).exits(126).complains(&["in use"]);
    let mut sidecar = sidecar.reached_by(&["--unix-socket", path.to_str().unwrap()]);
    sidecar.url = "http://localhost".to_owned();
    let token = sidecar.take("a", "{}");
    assert_eq!(sidecar.get("/v1/locks/a").1["token"], token.as_str(), "its owner may do everything");
    assert_eq!(sidecar.stop().code, Some(0));
    assert!(!path.exists(), "removed at the end");
}

#[test]
fn a_file_in_the_place_of_a_socket_is_left_alone() {
    let home = Home::new();
    fs::write(home.file("precious"), "data").unwrap();
    home.run(&["serve", "--listen", "unix:precious"]).exits(126).complains(&["not a socket"]);
    assert_eq!(fs::read_to_string(home.file("precious")).unwrap(), "data");
    let long = format!("unix:{}", "x".repeat(200));
    home.run(&["serve", "--listen", &long]).exits(126).complains(&["too long"]);
}
