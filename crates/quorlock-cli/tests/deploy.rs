//! What is under `deploy/` works with this program, and the sidecar does what its API description
//! says.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::program;
use std::path::Path;
use std::process::Command;

#[test]
fn deployment_files_runbooks_and_alerts_fit_together() {
    passes("check-deploy", &[]);
}

#[test]
fn the_sidecar_does_what_its_description_says() {
    passes("check-api", &["--short"]);
}

/// Runs a check of `scripts/`.
fn passes(script: &str, words: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.join("interop/.deps/checks/bin/python").exists() {
        eprintln!("skipped: scripts/setup-tests did not install what it needs");
        return;
    }
    let script = root.join("scripts").join(script);
    let output = Command::new(script).args(words).arg(program()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
