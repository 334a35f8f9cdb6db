//! The thin clients of the sidecar, in other languages, against this program and real servers.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::program;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[test]
fn the_python_client_keeps_its_promises() {
    let tests = root().join("clients/python/tests");
    passes(Command::new("python3").args(["-m", "unittest", "discover", "-s"]).arg(tests));
}

#[test]
fn the_javascript_client_keeps_its_promises() {
    let tests = root().join("clients/javascript/tests");
    let files = ["quorlock.test.js", "pauses.test.js"].map(|file| tests.join(file));
    passes(Command::new("node").arg("--test").args(files));
}

/// Runs tests of another language. Without the language there is nothing to test.
fn passes(command: &mut Command) {
    let language = command.get_program().to_owned();
    if Command::new(&language).arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no {}", language.display());
        return;
    }
    let output =
        command.env("QUORLOCK_PROGRAM", program()).env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
