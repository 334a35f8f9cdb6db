//! TLS, with and without certificates of callers.

use crate::client::{LIMIT, Sidecar};
use crate::harness::Home;
use quorlock_testkit::{Certs, until_blocking};
use rustix::process::Signal;
use std::fs;

#[test]
fn callers_show_certificates_if_they_are_asked_for() {
    let home = Home::new();
    let certs = Certs::generate(home.path());
    let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let (cert, key, ca) = (path(certs.server_cert()), path(certs.server_key()), path(certs.ca()));
    let args = ["serve", "--listen", "0.0.0.0:0", "--tls-cert", &cert, "--tls-key", &key, "--client-ca", &ca];
    let mut sidecar = Sidecar::of(home.start(&args));
    assert!(sidecar.url.starts_with("https://0.0.0.0:"), "{}", sidecar.url);
    sidecar.url = sidecar.url.replace("0.0.0.0", "127.0.0.1");
    let sidecar = sidecar.reached_by(&["--cacert", &ca]);
    let (client, client_key) = (path(certs.client_cert()), path(certs.client_key()));
    let shown = ["--cert", client.as_str(), "--key", client_key.as_str()];
    assert_eq!(sidecar.ask(&shown, "/v1/locks").0, 200);
    let refused = sidecar.curl(&[], "/v1/locks").output().unwrap();
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    let plain = sidecar.url.replace("https", "http");
    let refused = std::process::Command::new("curl").args(["-s", &plain]).output().unwrap();
    assert!(!refused.status.success() || refused.stdout.is_empty(), "{refused:?}");
    let json = ["--header", "content-type: application/json", "--data", "{}"];
    assert_eq!(sidecar.ask(&[&shown[..], &json].concat(), "/v1/locks/a/acquire").0, 200);
}

#[test]
fn tls_alone_does_not_say_who_calls() {
    let home = Home::new();
    let certs = Certs::generate(home.path());
    let (cert, key) = (certs.server_cert(), certs.server_key());
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let args = ["serve", "--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key];
    home.run(&args).exits(2).complains(&["can be reached by others"]);
}

/// Goal: a certificate is renewed without a restart, and a bad file changes nothing.
#[test]
fn certificates_are_reloaded_on_hangup() {
    let home = Home::new();
    let [one, two] = ["one", "two"].map(|name| {
        fs::create_dir(home.file(name)).unwrap();
        Certs::generate(&home.file(name))
    });
    let (cert, key) = (home.file("cert.pem"), home.file("key.pem"));
    let install = |certs: &Certs| {
        fs::copy(certs.server_cert(), &cert).unwrap();
        fs::copy(certs.server_key(), &key).unwrap();
    };
    install(&one);
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let mut sidecar = Sidecar::start(&home, &["--tls-cert", cert, "--tls-key", key]);
    let trusts = |sidecar: &Sidecar, certs: &Certs| {
        let ca = certs.ca();
        let asked = sidecar.curl(&["--cacert", ca.to_str().unwrap()], "/healthz").output().unwrap();
        asked.status.success()
    };
    assert!(trusts(&sidecar, &one) && !trusts(&sidecar, &two));
    install(&two);
    sidecar.running.signal(Signal::HUP);
    until_blocking("the new certificate is shown", LIMIT, || trusts(&sidecar, &two));
    fs::write(cert, "noise").unwrap();
    sidecar.running.signal(Signal::HUP);
    sidecar.running.says("the former certificates stay in use");
    assert!(trusts(&sidecar, &two) && !trusts(&sidecar, &one));
}
